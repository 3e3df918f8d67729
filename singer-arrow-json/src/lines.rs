//! Whole lines of JSON to Arrow columns, by the strict grammar of RFC 8259.
//!
//! A line with anything that does not fit exactly is bad: its row is there, with arbitrary values, and a parser that
//! takes its time must read it. So a line that is not bad has one object in which each key that is read occurs once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cursor::{Bad, Cursor};
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, NullBufferBuilder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{Field, Fields};

/// What a column of text takes beside strings.
#[derive(Clone, Copy, PartialEq)]
pub enum Text {
    Strings,
    /// Numbers, as they are written.
    Numbers,
    /// Numbers alone.
    Digits,
    /// All other values, as the JSON that they are.
    Others,
    /// All values, strings too.
    Json,
}

pub enum Values {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    /// Whole numbers from the second value on are bad: they may be rounded. So is `-0`, a whole number without a sign.
    Float(Float64Builder, f64),
    Text(StringBuilder, Text),
    Timestamp(TimestampMicrosecondBuilder),
    Date(Date32Builder),
    List {
        item: Box<Values>,
        begun: usize,
        offsets: Vec<i32>,
        valid: NullBufferBuilder,
    },
    Struct(Object),
    /// Any value, which is not kept.
    Nothing,
}

struct Member {
    name: String,
    /// The key as it is mostly written.
    quoted: String,
    values: Values,
    /// How many values did not fit.
    unfit: usize,
}

pub struct Object {
    members: Vec<Member>,
    by_name: HashMap<String, usize>,
    /// With what the paths of its members begin, if keys that no member has are reported.
    prefix: Option<String>,
    /// These keys, each with its place in `Found::counts` and the number of the last object that has it.
    others: HashMap<String, (usize, usize)>,
    valid: NullBufferBuilder,
}

#[derive(Default)]
pub struct Found {
    /// Numbers of bad lines, from 0.
    pub bad: Vec<usize>,
    pub blank: Vec<usize>,
    /// Good lines that have values of keys that no member has; how often all have each, by its path.
    pub drifted: Vec<usize>,
    pub unknown: BTreeMap<String, u64>,
    /// These keys while lines are read, and the places here of those of the line that is.
    counts: Vec<(String, u64)>,
    line: Vec<usize>,
    counts_null: bool,
}

pub fn read(data: &[u8], object: &mut Object, counts_null: bool) -> Found {
    let mut found = Found { counts_null, ..Found::default() };
    let mut cursor = Cursor::default();
    let whole = simdutf8::basic::from_utf8(data).ok();
    let (mut start, mut rows) = (0, 0);
    let rest = (data.last() != Some(&b'\n')).then_some(data.len());
    for (number, end) in memchr::memchr_iter(b'\n', data).chain(rest).enumerate() {
        let bytes = &data[start..end];
        let line = whole.map(|text| &text[start..end]).or_else(|| simdutf8::basic::from_utf8(bytes).ok());
        start = end + 1;
        if bytes.iter().all(|c| matches!(c, b'\t'..=b'\r' | b' ')) {
            found.blank.push(number);
            continue;
        }
        rows += 1;
        let read = line.ok_or(Bad).and_then(|line| {
            cursor.begin(line);
            object.read(&mut cursor, &mut found)?;
            cursor.is_at_end().then_some(()).ok_or(Bad)
        });
        match read {
            Err(Bad) => {
                object.valid.append_n_non_nulls(rows - object.valid.len());
                object.fill_members();
                found.bad.push(number);
            }
            Ok(()) if !found.line.is_empty() => {
                found.drifted.push(number);
                found.line.iter().for_each(|at| found.counts[*at].1 += 1);
            }
            Ok(()) => {}
        }
        found.line.clear();
    }
    for (path, count) in found.counts.drain(..).filter(|(_, count)| *count > 0) {
        *found.unknown.entry(path).or_insert(0) += count;
    }
    found
}

impl Object {
    pub fn new(members: Vec<(String, Values)>, prefix: Option<String>, rows: usize) -> Self {
        let by_name = members.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
        let quoted = |(name, values): (String, Values)| {
            let is_plain = !name.contains(|c: char| c < ' ' || c == '"' || c == '\\');
            Member { quoted: if is_plain { format!("\"{name}\"") } else { "\n".to_owned() }, name, values, unfit: 0 }
        };
        Object {
            members: members.into_iter().map(quoted).collect(),
            by_name,
            prefix,
            others: HashMap::new(),
            valid: NullBufferBuilder::new(rows),
        }
    }

    fn read(&mut self, json: &mut Cursor, found: &mut Found) -> Result<(), Bad> {
        json.expect(b'{')?;
        self.valid.append_non_null();
        let rows = self.valid.len();
        let (mut next, mut is_bad) = (0, false);
        let mut is_more = !json.take(b'}');
        while is_more {
            let at = if json.peek() == b'"' && self.members.get(next).is_some_and(|m| json.literal(&m.quoted)) {
                Some(next)
            } else {
                self.other(json, found)?
            };
            if let Some(at) = at {
                next = at + 1;
                let member = &mut self.members[at];
                if member.values.len() == rows {
                    return Err(Bad); // the key occurs twice
                }
                json.expect(b':')?;
                let start = json.at;
                if member.values.read(json, found).is_err() {
                    (is_bad, json.at) = (true, start);
                    json.raw()?;
                    member.values.fill(rows);
                    member.unfit += 1;
                }
            }
            is_more = json.take(b',');
            if !is_more {
                json.expect(b'}')?;
            }
        }
        self.fill_members();
        (!is_bad).then_some(()).ok_or(Bad)
    }

    /// How many values of each member did not fit; with `within`, those of the last member's members.
    pub fn unfit(&self, within: bool) -> Vec<usize> {
        match self.members.last() {
            Some(Member { values: Values::Struct(object), .. }) if within => object.unfit(false),
            _ => self.members.iter().map(|member| member.unfit).collect(),
        }
    }

    /// Read a key that is not the expected one; returns its member, or passes its value if it has none.
    fn other(&mut self, json: &mut Cursor, found: &mut Found) -> Result<Option<usize>, Bad> {
        if json.peek() != b'"' {
            return Err(Bad);
        }
        let name = json.string()?;
        if let Some(at) = self.by_name.get(name) {
            return Ok(Some(*at));
        }
        let (mut place, number) = (None, self.valid.len());
        if let Some((at, last)) = self.others.get_mut(name) {
            if *last == number {
                return Err(Bad); // which value counts is for the exact rules
            }
            (place, *last) = (Some(*at), number);
        } else if let Some(prefix) = &self.prefix {
            place = Some(found.counts.len());
            self.others.insert(name.to_owned(), (found.counts.len(), number));
            found.counts.push((format!("{prefix}{name}"), 0));
        }
        json.expect(b':')?;
        json.peek();
        let value = json.raw()?;
        let counts = found.counts_null || value != "null";
        found.line.extend(place.filter(|_| counts));
        Ok(None)
    }

    fn fill_members(&mut self) {
        let rows = self.valid.len();
        for member in &mut self.members {
            member.values.fill(rows);
        }
    }

    /// Add nulls up to a number of rows.
    fn fill(&mut self, rows: usize) {
        if self.valid.len() < rows {
            self.valid.append_n_nulls(rows - self.valid.len());
        }
        self.fill_members();
    }

    pub fn finish(&mut self) -> StructArray {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for member in &mut self.members {
            if let Some(column) = member.values.finish() {
                // Arrow's C interface ends names at NUL.
                fields.push(Field::new(member.name.replace('\0', ""), column.data_type().clone(), true));
                columns.push(column);
            }
        }
        let rows = self.valid.len();
        let valid = self.valid.finish();
        if columns.is_empty() {
            return StructArray::new_empty_fields(rows, valid);
        }
        StructArray::new(Fields::from(fields), columns, valid)
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Bool(b) => b.len(),
            Values::Int(b) => b.len(),
            Values::Float(b, _) => b.len(),
            Values::Text(b, _) => b.len(),
            Values::Timestamp(b) => b.len(),
            Values::Date(b) => b.len(),
            Values::List { valid, .. } => valid.len(),
            Values::Struct(object) => object.valid.len(),
            Values::Nothing => 0,
        }
    }

    fn read(&mut self, json: &mut Cursor, found: &mut Found) -> Result<(), Bad> {
        let first = json.peek();
        let is_number = first == b'-' || first.is_ascii_digit();
        match self {
            Values::Nothing => {
                json.raw()?;
            }
            _ if first == b'n' => {
                json.word("null")?;
                self.fill(self.len() + 1);
            }
            Values::Bool(b) if matches!(first, b't' | b'f') => {
                json.word(if first == b't' { "true" } else { "false" })?;
                b.append_value(first == b't');
            }
            Values::Int(b) if is_number => b.append_value(integer(json.number()?).ok_or(Bad)?),
            Values::Float(b, limit) if is_number => b.append_value(float(json.number()?, *limit).ok_or(Bad)?),
            Values::Text(b, Text::Strings | Text::Numbers | Text::Others) if first == b'"' => {
                b.append_value(json.string()?)
            }
            Values::Text(b, Text::Numbers | Text::Digits) if is_number => b.append_value(json.number()?),
            Values::Text(b, Text::Others | Text::Json) => b.append_value(json.raw()?),
            Values::Timestamp(b) if first == b'"' => b.append_value(timestamp(json.string()?).ok_or(Bad)?),
            Values::Date(b) if first == b'"' => b.append_value(date(json.string()?).ok_or(Bad)?),
            Values::List { item, begun, offsets, valid } if json.take(b'[') => {
                let mut is_more = !json.take(b']');
                while is_more {
                    *begun += 1;
                    item.read(json, found)?;
                    is_more = json.take(b',');
                    if !is_more {
                        json.expect(b']')?;
                    }
                }
                offsets.push(i32::try_from(*begun).map_err(|_| Bad)?);
                valid.append_non_null();
            }
            Values::Struct(object) if first == b'{' => object.read(json, found)?,
            _ => return Err(Bad),
        }
        Ok(())
    }

    fn fill(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.len());
        match self {
            Values::Bool(b) => b.append_nulls(missing),
            Values::Int(b) => b.append_nulls(missing),
            Values::Float(b, _) => b.append_nulls(missing),
            Values::Text(b, _) => (0..missing).for_each(|_| b.append_null()),
            Values::Timestamp(b) => b.append_nulls(missing),
            Values::Date(b) => b.append_nulls(missing),
            Values::List { item, begun, offsets, valid } => {
                if missing > 0 {
                    item.fill(*begun);
                    valid.append_n_nulls(missing);
                    offsets.extend(std::iter::repeat_n(*begun as i32, missing));
                }
            }
            Values::Struct(object) => object.fill(rows),
            Values::Nothing => {}
        }
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        Some(match self {
            Values::Bool(b) => Arc::new(b.finish()),
            Values::Int(b) => Arc::new(b.finish()),
            Values::Float(b, _) => Arc::new(b.finish()),
            Values::Text(b, _) => Arc::new(b.finish()),
            Values::Timestamp(b) => Arc::new(b.finish().with_timezone("UTC")),
            Values::Date(b) => Arc::new(b.finish()),
            Values::List { item, offsets, valid, .. } => {
                let items = item.finish()?;
                let field = Arc::new(Field::new("item", items.data_type().clone(), true));
                let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(offsets)));
                Arc::new(ListArray::new(field, offsets, items, valid.finish()))
            }
            Values::Struct(object) => Arc::new(object.finish()),
            Values::Nothing => return None,
        })
    }
}

/// A whole number, also one that is written like `1.00`, but not with an exponent.
fn integer(text: &str) -> Option<i64> {
    match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|c| c == b'0') => whole.parse().ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

fn float(text: &str, limit: f64) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.abs() < limit && text != "-0")
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, c| c.is_ascii_digit().then(|| 10 * sum + i64::from(c - b'0')))
}

fn date(text: &str) -> Option<i32> {
    if text.len() == 10 {
        i32::try_from(days(text.as_bytes())?).ok()
    } else {
        None
    }
}

/// Days from 1970 to `YYYY-MM-DD`, which the text begins with, in the years 1 to 9999.
fn days(text: &[u8]) -> Option<i64> {
    if text.len() < 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..10])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || day == 0 || day > last {
        return None;
    }
    // Years begin in March, so that the day of a leap year is the last one.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 - 719_468)
}

/// Microseconds from 1970 to `YYYY-MM-DDTHH:MM:SS`, with at most six digits of a fraction, and `Z`, `+HH:MM` or nothing.
fn timestamp(text: &str) -> Option<i64> {
    let text = text.as_bytes();
    let days = days(text)?;
    if text.len() < 19 || !matches!(text[10], b'T' | b' ') || text[13] != b':' || text[16] != b':' {
        return None;
    }
    let (hour, minute, second) = (digits(&text[11..13])?, digits(&text[14..16])?, digits(&text[17..19])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (rest, offset) = match &text[19..] {
        [rest @ .., b'Z'] => (rest, 0),
        [rest @ .., sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (rest, if *sign == b'+' { 60 * hours + minutes } else { -60 * hours - minutes })
        }
        rest => (rest, 0),
    };
    let fraction = match rest {
        [] => 0,
        [b'.', figures @ ..] if (1..=6).contains(&figures.len()) => {
            digits(figures)? * 10_i64.pow(6 - figures.len() as u32)
        }
        _ => return None,
    };
    Some((86_400 * days + 3_600 * hour + 60 * (minute - offset) + second) * 1_000_000 + fraction)
}
