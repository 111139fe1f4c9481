//! The head of the stream: what follows it.

use serde::{Deserialize, Serialize};

use crate::state::Image;

const MAGIC: [u8; 8] = *b"STILLRFT";
const VERSION: u32 = 1;
/// Bytes before the list.
const FIXED: usize = 16;
/// The longest head that is believed.
const BYTES_MAX: usize = 1 << 20;

/// The image, and name and length of each of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) files: Vec<(String, u64)>,
}

impl Head {
    pub(crate) fn from_image(image: &Image) -> Self {
        let files = image.files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
        Self { id: image.id.clone(), files }
    }

    /// Bytes of all files; `None` if no number can say.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        let bytes = self.files.iter().try_fold(0_u64, |sum, &(_, bytes)| sum.checked_add(bytes));
        bytes.filter(|&bytes| bytes < 1 << 62)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, String> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let mut bytes = postcard::to_extend(self, bytes).map_err(|error| error.to_string())?;
        let length = bytes.len() + 4;
        if length > BYTES_MAX {
            return Err(format!("{} files are too many", self.files.len()));
        }
        bytes[12..FIXED].copy_from_slice(&(length as u32).to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    /// The head at the start of `bytes` with its length, if it is there whole.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err("it is no snapshot of a stillframe member".into());
        }
        let Some(fixed) = bytes.first_chunk::<FIXED>() else { return Ok(None) };
        let number = |at: usize| {
            u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        if number(8) != VERSION {
            return Err(format!("its version is {}, and {VERSION} is known here", number(8)));
        }
        let length = number(12) as usize;
        if !(FIXED + 4..=BYTES_MAX).contains(&length) {
            return Err(format!("its head has {length} bytes"));
        }
        let Some(head) = bytes.get(..length) else { return Ok(None) };
        let (body, checksum) = head.split_at(length - 4);
        if crc_fast::crc32_iscsi(body).to_le_bytes() != checksum {
            return Err("the checksum of its head is wrong".into());
        }
        let list = postcard::take_from_bytes(&body[FIXED..]);
        let (head, rest): (Self, &[u8]) = list.map_err(|error| error.to_string())?;
        if !rest.is_empty() || head.total_bytes().is_none() {
            return Err("its head makes no sense".into());
        }
        Ok(Some((head, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_or_refused() {
        let head = Head { id: "7-a".into(), files: vec![("f-1".into(), 5), ("f-2".into(), 0)] };
        let bytes = head.encode().expect("it is short");
        assert_eq!(Head::decode(&bytes), Ok(Some((head.clone(), bytes.len()))));
        for at in 0..bytes.len() {
            assert_eq!(Head::decode(&bytes[..at]), Ok(None), "more is to come");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let decoded = Head::decode(&changed);
                assert!(!matches!(decoded, Ok(Some(_))), "byte {at}, bit {bit}: {decoded:?}");
            }
        }
        let large = Head { files: vec![("f".into(), u64::MAX), ("g".into(), 2)], ..head };
        let bytes = large.encode().expect("it is short");
        Head::decode(&bytes).expect_err("no disk is so large");
    }
}
