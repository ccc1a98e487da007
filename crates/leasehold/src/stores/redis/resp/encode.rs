//! Requests, straight into the buffer that is written.

use std::fmt;

/// A part of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Int(i64),
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Something that a server can be asked.
pub(crate) trait Request {
    /// Appends it.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A command and its arguments.
impl<const N: usize> Request for [Arg<'_>; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl Request for [Arg<'_>] {
    fn encode(&self, out: &mut Vec<u8>) {
        header(out, b'*', self.len());
        for part in self {
            argument(out, *part);
        }
    }
}

impl<R: Request + ?Sized> Request for &R {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

/// A Lua script. Its hash is computed once.
pub(crate) struct Script {
    text: &'static str,
    /// `EVALSHA` and the hash, encoded.
    by_hash: Box<[u8]>,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let hex = |half: u8| b"0123456789abcdef"[usize::from(half)];
        let hash: Vec<u8> = digest.as_ref().iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 15)]).collect();
        let mut by_hash = Vec::new();
        argument(&mut by_hash, "EVALSHA".into());
        argument(&mut by_hash, Arg::Bytes(&hash));
        Self { text, by_hash: by_hash.into() }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

/// A run of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eval<'a> {
    pub(crate) script: &'a Script,
    pub(crate) keys: &'a [Arg<'a>],
    pub(crate) args: &'a [Arg<'a>],
    /// With its text, for a server that does not know the hash. It knows it from then on.
    pub(crate) whole: bool,
}

impl Request for Eval<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        header(out, b'*', 3 + self.keys.len() + self.args.len());
        if self.whole {
            argument(out, "EVAL".into());
            argument(out, self.script.text.into());
        } else {
            out.extend_from_slice(&self.script.by_hash);
        }
        number(out, self.keys.len() as u64);
        for part in self.keys.iter().chain(self.args) {
            argument(out, *part);
        }
    }
}

fn argument(out: &mut Vec<u8>, part: Arg<'_>) {
    match part {
        Arg::Bytes(bytes) => {
            header(out, b'$', bytes.len());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        Arg::Int(int) if int < 0 => {
            let mut digits = [0; DIGITS];
            let digits = decimal(int.unsigned_abs(), &mut digits);
            header(out, b'$', digits.len() + 1);
            out.push(b'-');
            out.extend_from_slice(digits);
            out.extend_from_slice(b"\r\n");
        }
        Arg::Int(int) => number(out, int.unsigned_abs()),
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; DIGITS];
    argument(out, Arg::Bytes(decimal(number, &mut digits)));
}

fn header(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    let mut digits = [0; DIGITS];
    out.extend_from_slice(decimal(length as u64, &mut digits));
    out.extend_from_slice(b"\r\n");
}

/// `u64::MAX` has so many.
const DIGITS: usize = 20;

/// `format!` costs more than the rest of a request.
fn decimal(mut number: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut first = DIGITS;
    loop {
        first -= 1;
        digits[first] = b"0123456789"[(number % 10) as usize];
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}
