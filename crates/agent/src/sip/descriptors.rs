//! How many descriptors the process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Has the process be allowed so many descriptors, beyond its hard limit where it may (CAP_SYS_RESOURCE), and else up to
/// that; how many it is allowed then, which are fewer only if more are not to be had.
pub(super) fn allowed(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return needed;
    }
    let raised = Rlimit { current: Some(needed), maximum: maximum.map(|maximum| maximum.max(needed)) };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        return needed;
    }
    // Who may not has less than that at most.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    maximum.unwrap_or(needed)
}
