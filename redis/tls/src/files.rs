//! Certificates and keys in PEM files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{VERSION_ONE, is_version_one};

/// A file, and the setting that names it, if one does.
#[derive(Debug, Clone)]
pub struct Named {
    setting: Option<&'static str>,
    path: PathBuf,
}

impl Named {
    /// The file that no setting names.
    #[must_use]
    pub fn by_path(path: impl Into<PathBuf>) -> Self {
        Self { setting: None, path: path.into() }
    }

    /// The file that the setting names.
    #[must_use]
    pub fn by_setting(setting: &'static str, path: impl Into<PathBuf>) -> Self {
        Self { setting: Some(setting), path: path.into() }
    }

    /// Whether it names no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// The setting that names it.
    #[must_use]
    pub fn setting(&self) -> Option<&'static str> {
        self.setting
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(setting) = self.setting {
            write!(f, "{setting} ")?;
        }
        self.path.display().fmt(f)
    }
}

/// Which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A file or directory cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(Named, #[source] io::Error),
    /// A file holds no key.
    #[error("{0} holds no private key in PEM form: {1}")]
    NoKey(Named, #[source] pem::Error),
    /// A file holds no certificate.
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(Named),
    /// A file is no PEM file.
    #[error("{0} is no PEM file: {1}")]
    NoPem(Named, #[source] pem::Error),
    /// A certificate is of X.509 version 1.
    #[error("{0} {VERSION_ONE}")]
    VersionOne(Named),
}

fn read(file: &Named) -> Result<Vec<u8>, FileError> {
    fs::read(&file.path).map_err(|error| FileError::Unreadable(file.clone(), error))
}

/// The certificates in a file, at least one.
///
/// # Errors
/// [`FileError`]: what is wrong with the file.
pub fn read_certificates(file: &Named) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let bytes = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(FileError::NoCertificate(file.clone())),
        Err(source) => Err(FileError::NoPem(file.clone(), source)),
    }
}

/// The certificates that this side shows, which peers take.
///
/// # Errors
/// [`FileError`]: what is wrong with the file.
pub fn read_chain(file: &Named) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let chain = read_certificates(file)?;
    if chain.iter().any(is_version_one) {
        return Err(FileError::VersionOne(file.clone()));
    }
    Ok(chain)
}

/// The private key in a file.
///
/// # Errors
/// [`FileError`]: what is wrong with the file.
pub fn read_key(file: &Named) -> Result<PrivateKeyDer<'static>, FileError> {
    let key = PrivateKeyDer::from_pem_slice(&read(file)?);
    key.map_err(|source| FileError::NoKey(file.clone(), source))
}
