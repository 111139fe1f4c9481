//! Replies as values of Python.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString};
use stillframe_resp::Reply;

use crate::errors::CommandError;

/// The reply; texts as `str` if asked. Errors within arrays are values.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    reply: &Reply<'_>,
    decode: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let list = |items: &[Reply<'_>]| {
        let items: PyResult<Vec<_>> =
            items.iter().map(|item| to_python(py, item, decode)).collect();
        Ok(PyList::new(py, items?)?.into_any())
    };
    match reply {
        Reply::Simple(bytes) | Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => {
            text(py, bytes, decode)
        }
        Reply::Error(bytes) => Ok(error(bytes).into_value(py).into_bound(py).into_any()),
        Reply::Integer(value) => value.into_bound_py_any(py),
        Reply::Null | Reply::NullArray => Ok(py.None().into_bound(py)),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => list(items),
        Reply::Map(pairs) => {
            let map = PyDict::new(py);
            for (key, value) in pairs {
                map.set_item(to_python(py, key, decode)?, to_python(py, value, decode)?)?;
            }
            Ok(map.into_any())
        }
        Reply::Double(value) => value.into_bound_py_any(py),
        Reply::Boolean(value) => value.into_bound_py_any(py),
        Reply::BigNumber(digits) => {
            let digits = String::from_utf8_lossy(digits);
            py.get_type::<PyInt>().call1((digits,))
        }
        _ => Err(CommandError::new_err("a reply of an unknown kind")),
    }
}

/// A reply that is an error.
pub(crate) fn error(text: &[u8]) -> PyErr {
    CommandError::new_err(String::from_utf8_lossy(text).into_owned())
}

fn text<'py>(py: Python<'py>, bytes: &[u8], decode: bool) -> PyResult<Bound<'py, PyAny>> {
    if !decode {
        return Ok(PyBytes::new(py, bytes).into_any());
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(error) => {
            Err(PyErr::from_value(PyUnicodeDecodeError::new_utf8(py, bytes, error)?.into_any()))
        }
    }
}
