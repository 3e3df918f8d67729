//! The Python module: lines of JSON to Arrow arrays, without the GIL.

mod cursor;
mod lines;

use std::collections::BTreeMap;

use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, NullBufferBuilder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::ffi::{to_ffi, FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, StructArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use lines::{read, Object, Text, Values};

/// Rows, as Arrow's C data interface has them.
#[pyclass(frozen)]
struct Rows(StructArray);

#[pymethods]
impl Rows {
    #[pyo3(signature = (_requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        _requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) =
            to_ffi(&self.0.to_data()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}

/// A member: its name, its kind, and its members or item.
#[derive(FromPyObject)]
struct Member(String, String, Vec<Member>);

/// Return an object; the path of a member begins with `prefix`, if keys that no member has are reported.
fn object(members: Vec<Member>, prefix: Option<&str>, rows: usize) -> PyResult<Object> {
    let named = members.into_iter().map(|Member(name, kind, inner)| {
        let below = prefix.map(|prefix| format!("{prefix}{name}."));
        Ok((name, values(&kind, inner, below.as_deref(), rows)?))
    });
    Ok(Object::new(named.collect::<PyResult<_>>()?, prefix.map(str::to_owned), rows))
}

fn values(kind: &str, mut inner: Vec<Member>, prefix: Option<&str>, rows: usize) -> PyResult<Values> {
    let text = |kind| Values::Text(StringBuilder::with_capacity(rows, 8 * rows), kind);
    Ok(match kind {
        "bool" => Values::Bool(BooleanBuilder::with_capacity(rows)),
        "int" => Values::Int(Int64Builder::with_capacity(rows)),
        "float" => Values::Float(Float64Builder::with_capacity(rows), 2_f64.powi(53)),
        "float32" => Values::Float(Float64Builder::with_capacity(rows), 2_f64.powi(24)),
        "timestamp" => Values::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows)),
        "date" => Values::Date(Date32Builder::with_capacity(rows)),
        "text" => text(Text::Strings),
        "number" => text(Text::Numbers),
        "digits" => text(Text::Digits),
        "any" => text(Text::Others),
        "json" => text(Text::Json),
        "nothing" => Values::Nothing,
        "struct" => Values::Struct(object(inner, prefix, rows)?),
        "record" => Values::Struct(object(inner, Some(""), rows)?),
        "open" => Values::Struct(object(inner, None, rows)?),
        "list" if inner.len() == 1 => {
            let Member(_, kind, inner) = inner.remove(0);
            let item = Box::new(values(&kind, inner, prefix, rows)?);
            Values::List { item, begun: 0, offsets: vec![0], valid: NullBufferBuilder::new(rows) }
        }
        _ => return Err(PyValueError::new_err(format!("there are no values of the kind {kind:?}"))),
    })
}

type Lines = (Rows, Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>, BTreeMap<String, u64>);

/// Read whole lines; returns the rows of all lines but blank ones, the bad lines, how many values of each member of the
/// record did not fit, the blank lines, those with unknown keys, and how often they have each. With a record within
/// the line, `reports` is for the keys around it too, and also for those whose value is null.
#[pyfunction]
fn read_lines(py: Python<'_>, data: &[u8], members: Vec<Member>, reports: bool) -> PyResult<Lines> {
    let rows = 1 + memchr::memchr_iter(b'\n', data).count();
    let within = members.last().is_some_and(|Member(_, kind, _)| kind == "record" || kind == "open");
    let mut root = object(members, reports.then_some(""), rows)?;
    let (found, rows) = py.detach(|| (read(data, &mut root, within && reports), root.finish()));
    Ok((Rows(rows), found.bad, root.unfit(within), found.blank, found.drifted, found.unknown))
}

#[pymodule]
fn singer_arrow_json(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", 2)?; // another number whenever what the function takes, returns or accepts is not as before
    module.add_function(wrap_pyfunction!(read_lines, module)?)
}
