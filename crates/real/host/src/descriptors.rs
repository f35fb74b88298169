//! Limits of open file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open descriptors to `needed`. Without CAP_SYS_RESOURCE, the hard limit is the maximum. Also
/// enlarges the kernel's table of descriptors accordingly. Returns the allowed number.
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
    // Without the capability, the hard limit is the maximum.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    maximum.unwrap_or(needed)
}

/// Enlarges the kernel's table of descriptors in advance. If the table grows later, the calling thread waits for an RCU grace
/// period, which takes tens of milliseconds on a busy machine (fs/file.c, `expand_fdtable`).
fn enlarge_table(descriptors: u64) {
    /// Maximum number of descriptors for which the table is enlarged. The table then takes about 8 MB.
    const MOST: u64 = 1 << 20;
    let last = descriptors.min(MOST).saturating_sub(1);
    if let Ok(last) = i32::try_from(last) {
        // The table does not shrink when the copied descriptor is closed. If the copy fails, the table grows later.
        let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last);
    }
}

/// The system allows fewer open files than a server needs for all connections that its limits allow. The server then
/// holds fewer connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system allows {allowed} open files, and all connections need {needed}; the server holds {connections} connections and \
     refuses others; run `ulimit -n {needed}` first to allow all"
)]
pub struct DescriptorShortage {
    /// Descriptors that the process may have.
    pub allowed: u64,
    /// Descriptors that all connections need.
    pub needed: u64,
    /// Connections that the process can hold.
    pub connections: usize,
}

/// Number of connections that a server can hold, at most `wanted`. Each connection needs `each` descriptors, and the
/// server needs `others` in addition. Raises the limit of descriptors if possible. The second value describes the
/// shortage, if there is one.
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
