//! The properties of the engine, and the mistakes that they must catch.
