//! Small objects that are read whole: a line of JSON, and a line with its SHA-256.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// The first field of every sealed object.
pub(crate) const FORMAT: &str = "stillframe-archive";
/// The version of the format of claims and manifests.
pub(crate) const VERSION: u32 = 1;

const SEAL: &str = "sha256 ";

/// What is wrong with a sealed object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsealed {
    /// Bytes are missing, or others than were written.
    #[error("is torn: its checksum is wrong or missing")]
    Torn,
    /// Another program wrote it, or it lies under another name than it was written for.
    #[error("is foreign: {0}")]
    Foreign(String),
    /// A later version of this program wrote it.
    #[error("has version {0} of the format, and this program reads up to {VERSION}")]
    Newer(u32),
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text of an object.
pub(crate) fn seal(value: &impl Serialize) -> String {
    // Strings and numbers only, so that it cannot fail; an empty text would be refused as torn.
    let line = serde_json::to_string(value).unwrap_or_default();
    format!("{line}\n{SEAL}{}\n", digest(line.as_bytes()))
}

/// Reads what [`seal`] wrote.
pub(crate) fn unseal<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unsealed> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Unsealed::Torn)?;
    let (line, seal) = text.split_once('\n').ok_or(Unsealed::Torn)?;
    if seal != format!("{SEAL}{}\n", digest(line.as_bytes())) {
        return Err(Unsealed::Torn);
    }
    let foreign = |error: serde_json::Error| Unsealed::Foreign(error.to_string());
    let head: Head = serde_json::from_str(line).map_err(foreign)?;
    if head.format != FORMAT {
        return Err(Unsealed::Foreign("it is of another program".to_owned()));
    }
    if head.version > VERSION {
        return Err(Unsealed::Newer(head.version));
    }
    serde_json::from_str(line).map_err(foreign)
}
