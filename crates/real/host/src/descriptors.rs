//! How many descriptors the process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Has the process be allowed so many descriptors, beyond its hard limit where it may (CAP_SYS_RESOURCE), and else up to
/// that; how many it is allowed then, which are fewer only if more are not to be had. The kernel's table has room for them.
pub fn allowed_descriptors(needed: u64) -> u64 {
    let allowed = allowed_by_limits(needed);
    enlarge_table(needed.min(allowed));
    allowed
}

fn allowed_by_limits(needed: u64) -> u64 {
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

/// Has the kernel's table of descriptors be as large as so many need. It grows when a descriptor finds no place, and that thread waits
/// for a grace period of RCU then, which takes tens of milliseconds on a busy machine (fs/file.c, `expand_fdtable`).
fn enlarge_table(descriptors: u64) {
    /// Some 8 MB.
    const MOST: u64 = 1 << 20;
    let last = descriptors.min(MOST).saturating_sub(1);
    if let Ok(last) = i32::try_from(last) {
        // The table stays as large when the copy is closed. If it cannot be had, the table grows later.
        let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last);
    }
}

/// Fewer open files than a server needs for all connections that its limits allow. It holds as many as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system allows {allowed} open files, and all connections that may come need {needed}: {connections} connections can be \
     held, and others are turned away; `ulimit -n {needed}` before it allows all"
)]
pub struct DescriptorShortage {
    /// Descriptors that the process may have.
    pub allowed: u64,
    /// Descriptors that it would need.
    pub needed: u64,
    /// Connections that it can hold now.
    pub connections: usize,
}

/// How many of so many connections a server can hold, beside `others` descriptors of its own, where each needs `each` of them; and
/// what is lacking, if it cannot hold all. The process is allowed more descriptors where it may be.
pub fn connections_within(wanted: usize, each: u64, others: u64) -> (usize, Option<DescriptorShortage>) {
    let needed = (wanted as u64).saturating_mul(each).saturating_add(others);
    let allowed = allowed_descriptors(needed);
    if allowed >= needed {
        return (wanted, None);
    }
    let connections = usize::try_from(allowed.saturating_sub(others) / each.max(1)).unwrap_or(wanted);
    (connections, Some(DescriptorShortage { allowed, needed, connections }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_cannot_hold_is_told_with_what_would_help() {
        assert_eq!(connections_within(1, 1, 1), (1, None));
        let (connections, shortage) = connections_within(usize::MAX >> 8, 2, 100);
        let shortage = shortage.unwrap();
        assert_eq!(connections as u64, (shortage.allowed - 100) / 2);
        assert!(shortage.to_string().contains(&format!("`ulimit -n {}`", shortage.needed)), "{shortage}");
    }
}
