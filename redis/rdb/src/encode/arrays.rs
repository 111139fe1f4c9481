//! Writing arrays; see [`crate::arrays`] for the form.

use crate::arrays::{ArrayNumber, DOUBLE, INT, SHORT, SHORT_BYTES_MAX, TEXT};
use crate::encode::{Encoder, Head};
use crate::format::TYPE_ARRAY;
use crate::sheet::Output;

impl<O: Output> Encoder<O> {
    /// Writes an array of `len` elements by rising indices, and the index last inserted at.
    /// `false`: the version has no form for it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn array<'a>(
        &mut self,
        head: Head<'_>,
        len: usize,
        inserted: Option<u64>,
        elements: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> Result<bool, O::Error> {
        if !self.version.holds_arrays() {
            return Ok(false);
        }
        self.open(head, TYPE_ARRAY)?;
        self.out.length(len as u64)?;
        self.out.length(inserted.is_some().into())?;
        if let Some(index) = inserted {
            self.out.length(index)?;
        }
        for (index, text) in elements {
            self.out.length(index)?;
            match ArrayNumber::parse(text) {
                Some(ArrayNumber::Int(int)) => {
                    self.out.length(INT)?;
                    self.out.sheet.put(&int.to_le_bytes())?;
                }
                Some(ArrayNumber::Double(number)) => {
                    self.out.length(DOUBLE)?;
                    self.out.sheet.put(&number.to_le_bytes())?;
                }
                None if text.len() <= SHORT_BYTES_MAX => {
                    self.out.length(SHORT)?;
                    self.out.length(text.len() as u64)?;
                    self.out.sheet.put(text)?;
                }
                None => {
                    self.out.length(TEXT)?;
                    self.out.string(text)?;
                }
            }
        }
        Ok(true)
    }
}
