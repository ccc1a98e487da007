//! Randomness, injected: a simulation replays its seed.

use std::fmt;

use crate::id::{AttemptId, ClientId};

/// Where random bits come from.
///
/// Attempt ids are secrets, so anything but [`SystemEntropy`] is for tests and simulation.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// 128 random bits.
    fn bits(&self) -> u128;
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        #[expect(clippy::disallowed_methods, reason = "the one place that asks the system")]
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        u128::from_le_bytes(bytes)
    }
}

impl dyn Entropy + '_ {
    /// A new attempt id.
    pub fn attempt_id(&self) -> AttemptId {
        AttemptId::from_bits(self.bits())
    }

    /// A new client id.
    #[expect(clippy::cast_possible_truncation, reason = "64 of the 128 random bits are wanted")]
    pub fn client_id(&self) -> ClientId {
        ClientId::from_bits(self.bits() as u64)
    }

    /// `span` less a random part of up to `share`, so that what began together does not stay together.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "53 bits of randomness suffice")]
    pub fn jitter(&self, span: std::time::Duration, share: f64) -> std::time::Duration {
        let unit = (self.bits() as u64 >> 11) as f64 / (1u64 << 53) as f64;
        span.mul_f64(1.0 - share * unit)
    }
}
