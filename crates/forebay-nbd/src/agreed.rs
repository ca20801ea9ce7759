//! The result of a handshake, by which requests are parsed and replies are framed.

/// What a handshake has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The export, as a place in the list that the session was made with.
    pub export: usize,
    /// How replies are framed.
    pub style: ReplyStyle,
    /// The client has selected the metadata context `base:allocation`.
    pub allocation: bool,
}

/// How replies are framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyStyle {
    /// A header of 16 bytes.
    #[default]
    Simple,
    /// Chunks with headers of 20 bytes, which can carry an error's text.
    Structured,
    /// Chunks with headers of 32 bytes.
    Extended,
}
