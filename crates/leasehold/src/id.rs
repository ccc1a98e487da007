//! The random numbers by which an acquisition and a client are known.

use std::{fmt, num::NonZeroU64};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// 128 random bits, new for each acquisition: the holder's secret.
///
/// Whoever knows the attempt id can renew and release the lease, so its `Debug` form shows nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Bytes rather than a number, which would be aligned to 16 and pad every record that has one.
pub struct AttemptId([u8; 16]);

impl AttemptId {
    /// An attempt id of these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    /// The 32 hexadecimal digits of the secret.
    pub fn to_secret_hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// Reads what [`to_secret_hex`](Self::to_secret_hex) wrote.
    pub fn from_secret_hex(text: &str) -> Option<Self> {
        (text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| u128::from_str_radix(text, 16).ok().map(Self::from_bits))
            .flatten()
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptId(…)")
    }
}

impl Serialize for AttemptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.to_secret_hex())
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for AttemptId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::from_secret_hex(&text).ok_or_else(|| D::Error::custom("an attempt id has 32 hexadecimal digits"))
        } else {
            <[u8; 16]>::deserialize(deserializer).map(Self)
        }
    }
}

/// One opened client of a store: the address of its wake-ups, and what its waiters have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(NonZeroU64);

impl ClientId {
    /// A client id of these bits; zero, which stands for nobody, becomes one.
    pub fn from_bits(bits: u64) -> Self {
        Self(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }

    /// The bits.
    pub fn bits(self) -> u64 {
        self.0.get()
    }
}
