//! Tests of the hot log through its public interface, on real files.

mod damage;
mod model;
mod recovery;
mod rules;
mod support;
mod upkeep;
