//! Any bytes as lines of JSON: what is read is what serde_json reads, and a line is read alike alone and among others.

#![no_main]

#[path = "../../src/cursor.rs"]
mod cursor;
#[path = "../../src/lines.rs"]
mod lines;

use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, NullBufferBuilder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, StructArray};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

use lines::{read, Found, Object, Text, Values};

fn record(path: Option<&str>) -> Object {
    let int = || Values::Int(Int64Builder::with_capacity(1));
    let text = |kind| Values::Text(StringBuilder::with_capacity(1, 8), kind);
    let list =
        |item| Values::List { item: Box::new(item), begun: 0, offsets: vec![0], valid: NullBufferBuilder::new(0) };
    let of = |path: Option<&str>, members: Vec<(&str, Values)>| {
        let members = members.into_iter().map(|(name, values)| (name.to_owned(), values)).collect();
        Object::new(members, path.map(str::to_owned), 0)
    };
    let below = |name: &str| path.map(|_| name.to_owned());
    let item = of(below("m").as_deref(), vec![("i", int())]);
    let inner = of(below("r").as_deref(), vec![("i", int()), ("m", list(list(Values::Struct(item))))]);
    of(
        path,
        vec![
            ("i", int()),
            ("b", Values::Bool(BooleanBuilder::with_capacity(1))),
            ("f", Values::Float(Float64Builder::with_capacity(1), 2_f64.powi(53))),
            ("s", text(Text::Strings)),
            ("n", text(Text::Numbers)),
            ("g", text(Text::Digits)),
            ("o", text(Text::Others)),
            ("j", text(Text::Json)),
            ("t", Values::Timestamp(TimestampMicrosecondBuilder::with_capacity(1))),
            ("d", Values::Date(Date32Builder::with_capacity(1))),
            ("l", list(int())),
            ("x", Values::Nothing),
            ("r", Values::Struct(inner)),
        ],
    )
}

fn rows(data: &[u8], reports: bool) -> (StructArray, Found) {
    let mut object = record(reports.then_some(""));
    let found = read(data, &mut object, reports);
    assert!(object.unfit(false).iter().all(|unfit| *unfit <= found.bad.len()));
    (object.finish(), found)
}

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let reports = first % 2 == 1;
    let (all, found) = rows(data, reports);
    let mut row = 0;
    for (number, line) in data.strip_suffix(b"\n").unwrap_or(data).split(|c| *c == b'\n').enumerate() {
        if found.blank.contains(&number) || data.is_empty() {
            continue;
        }
        row += 1;
        let (alone, alone_found) = rows(line, reports);
        assert_eq!(alone.len(), 1);
        assert_eq!(found.bad.contains(&number), !alone_found.bad.is_empty());
        assert_eq!(found.drifted.contains(&number), !alone_found.drifted.is_empty());
        if found.bad.contains(&number) {
            continue;
        }
        assert_eq!(alone, all.slice(row - 1, 1));
        serde_json::from_slice::<serde::de::IgnoredAny>(line).expect("a line that is read is JSON");
        // Other strings are not decoded here: a key or value that is passed over may have half a surrogate.
        if let Ok(value) = serde_json::from_slice::<Value>(line) {
            same(&alone, &value);
        }
    }
    assert_eq!(all.len(), row);
});

/// The columns whose values serde_json has too.
fn same(row: &StructArray, value: &Value) {
    let column = |name: &str| row.column_by_name(name).filter(|column| column.is_valid(0));
    let whole = |value: &Value| value.as_i64().or_else(|| value.as_f64().map(|number| number as i64));
    assert!(value.is_object());
    assert_eq!(column("i").map(|c| c.as_primitive::<Int64Type>().value(0)), whole(&value["i"]));
    assert_eq!(column("b").map(|c| c.as_boolean().value(0)), value["b"].as_bool());
    assert_eq!(column("f").map(|c| c.as_primitive::<Float64Type>().value(0)), value["f"].as_f64());
    assert_eq!(column("s").map(|c| c.as_string::<i32>().value(0)), value["s"].as_str());
    for name in ["g", "j"] {
        let read = column(name).map(|c| serde_json::from_str::<Value>(c.as_string::<i32>().value(0)).unwrap());
        assert_eq!(read.as_ref(), Some(&value[name]).filter(|value| !value.is_null()));
    }
    let items = column("l").map(|c| c.as_list::<i32>().value(0));
    assert_eq!(items.as_ref().map(Array::len), value["l"].as_array().map(Vec::len));
    for (at, item) in value["l"].as_array().into_iter().flatten().enumerate() {
        let read = items.as_ref().map(|items| items.as_primitive::<Int64Type>());
        assert_eq!(read.filter(|read| read.is_valid(at)).map(|read| read.value(at)), whole(item));
    }
}
