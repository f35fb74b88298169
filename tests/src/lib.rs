//! What tests that concern more than one crate have in common. The tests are under `tests/tests`.
#![forbid(unsafe_code)]
