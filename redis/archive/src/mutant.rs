//! Deliberate mistakes, compiled for tests alone: the tests must find each one.

stillframe::mutants! {
    pub(crate) when test;

    /// A manifest names an object before it is put.
    ManifestFirst,
    /// A manifest is put though a later claim exists.
    ClaimIgnored,
    /// A claim of another data directory is taken without being asked.
    ClaimTaken,
    /// Records that were never uploaded are passed over.
    GapIgnored,
    /// A log that was rewound goes on in the same set.
    DivergenceIgnored,
    /// Objects go before the manifest that still names them is replaced.
    DroppedAtOnce,
    /// The pending file goes before the manifest names it.
    ForgottenEarly,
    /// Bytes of a restored object are not compared with the manifest.
    BytesTrusted,
}
