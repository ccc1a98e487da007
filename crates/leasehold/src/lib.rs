//! placeholder
pub mod clock;
pub mod engine;
pub mod entropy;
mod error;
mod id;
mod name;
pub mod store;
mod stores;
mod ticket;
mod ttl;
mod view;
pub use error::{Contended, Error, ErrorKind, Loss, Problem};
pub use id::{AttemptId, ClientId};
pub use name::Name;
pub use stores::{SCHEMES, StoreUrl, registers};
pub use ticket::{Rights, Ticket};
pub use ttl::{Ttl, parse_duration};
pub use view::{HolderView, LeaseView, Phase, WaiterView};
