//! How long the path took.

use serde::Serialize;

/// An echo, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// When it was sent, ns of `CLOCK_MONOTONIC`.
    pub sent: u64,
    /// How long it took there and back, without the time that the server kept it, ns; nothing if it was lost.
    pub took_ns: Option<u64>,
    /// From this host's clock to the server's, and from the server's to this host's, ns: only differences mean anything.
    pub ways_ns: Option<[i64; 2]>,
}

/// Round trips of echoes: one that was lost took infinitely long, so that a quantile tells of delay and loss together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delays {
    /// Echoes sent.
    pub sent: usize,
    /// Echoes that did not come back.
    pub lost: usize,
    /// The shortest, s.
    pub least_s: Option<f64>,
    /// Half took no longer, s; nothing if that is a lost one, as of those that follow.
    pub p50_s: Option<f64>,
    /// 95 of 100 took no longer, s.
    pub p95_s: Option<f64>,
    /// 99 of 100 took no longer, s.
    pub p99_s: Option<f64>,
    /// The longest of those that came back, s.
    pub most_s: Option<f64>,
}

impl Delays {
    /// Of these echoes; nothing of none.
    pub fn of<'a>(rounds: impl Iterator<Item = &'a Round>) -> Option<Self> {
        let all: Vec<Option<u64>> = rounds.map(|round| round.took_ns).collect();
        let mut back: Vec<u64> = all.iter().copied().flatten().collect();
        back.sort_unstable();
        let seconds = |nanos: &u64| *nanos as f64 * 1e-9;
        let quantile = |p: f64| {
            let rank = (p * all.len() as f64).ceil() as usize;
            back.get(rank.max(1) - 1).map(seconds)
        };
        (!all.is_empty()).then(|| Self {
            sent: all.len(),
            lost: all.len() - back.len(),
            least_s: back.first().map(seconds),
            p50_s: quantile(0.5),
            p95_s: quantile(0.95),
            p99_s: quantile(0.99),
            most_s: back.last().map(seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(took_ms: impl IntoIterator<Item = Option<u64>>) -> Option<Delays> {
        let round =
            |took: Option<u64>| Round { sent: 0, took_ns: took.map(|ms| ms * 1_000_000), ways_ns: None };
        let rounds: Vec<_> = took_ms.into_iter().map(round).collect();
        Delays::of(rounds.iter())
    }

    #[test]
    fn what_is_lost_took_longest() {
        let told = delays((1..=98).map(Some).chain([None, None])).unwrap();
        assert_eq!((told.sent, told.lost), (100, 2));
        assert_eq!([told.least_s, told.p50_s, told.p95_s], [0.001, 0.05, 0.095].map(Some));
        assert_eq!((told.p99_s, told.most_s), (None, Some(0.098)));
        assert_eq!(delays([]), None);
        assert_eq!(delays([None]).unwrap().p50_s, None);
    }
}
