//! Saturation throughput of stations that share a channel by IEEE 802.11.
//!
//! Assumes that every station always has a packet to send, that all stations receive each other, that frames are lost
//! only in collisions, and that each attempt collides with the same probability. This decoupling makes a closed form
//! possible. Sources: G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", 2000;
//! the limit of attempts: G. Bianchi and I. Tinnirello, "Remarks on IEEE 802.11 DCF performance analysis", 2005; the
//! slot after a busy period: I. Tinnirello, G. Bianchi and Y. Xiao, "Refinements on IEEE 802.11 distributed
//! coordination function modeling approaches", 2010.

use super::{TheoryError, positive};

/// The rule for a station's backoff counter while another station sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRule {
    /// The counter counts only slots that were idle to their end. So only the station that has just sent can use the
    /// first slot after a busy period. This is the distributed coordination function (802.11a, b, g).
    Frozen,
    /// The counter also counts the slot in which the other station starts. This is enhanced distributed channel access
    /// (802.11e, n), and Bianchi's model.
    Counted,
}

/// Stations that always have a packet to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    stations: u32,
    cw_min: u32,
    cw_max: u32,
    attempts: u32,
    rule: SlotRule,
}

/// Airtimes, s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Airtimes {
    /// Length of a slot.
    pub slot_s: f64,
    /// A successful exchange, until the next slot: data, SIFS, acknowledgement, DIFS or AIFS.
    pub success_s: f64,
    /// A collision, until the next slot.
    pub collision_s: f64,
}

impl Saturation {
    /// `stations` stations with contention windows from `cw_min` to `cw_max`, slots. The window doubles after each
    /// failed attempt. A packet has at most `attempts` attempts.
    ///
    /// # Errors
    /// No station, no attempt, or an invalid window.
    pub fn new(
        stations: u32,
        cw_min: u32,
        cw_max: u32,
        attempts: u32,
        rule: SlotRule,
    ) -> Result<Self, TheoryError> {
        let at_least_one = |parameter, value: u32| {
            let range = "a whole number from 1";
            let error = TheoryError::OutOfRange { parameter, range, value: value.into() };
            if value > 0 { Ok(()) } else { Err(error) }
        };
        at_least_one("stations", stations)?;
        at_least_one("attempts", attempts)?;
        at_least_one("cw_min", cw_min)?;
        if cw_max < cw_min {
            let range = "at least cw_min";
            return Err(TheoryError::OutOfRange { parameter: "cw_max", range, value: cw_max.into() });
        }
        Ok(Self { stations, cw_min, cw_max, attempts, rule })
    }

    /// Probability that a station sends in a slot at this collision probability: attempts divided by slots, Σ pⁱ / Σ
    /// pⁱ(1 + (Wᵢ − 1)/2).
    fn attempts_per_slot(&self, collision: f64) -> f64 {
        // With a frozen counter, the model has a window that is smaller by one, and one more slot for each busy period.
        let first = f64::from(self.cw_min) + if self.rule == SlotRule::Counted { 1.0 } else { 0.0 };
        let most = f64::from(self.cw_max) + 1.0;
        let (mut weight, mut window) = (1.0, first);
        let (mut attempts, mut slots) = (0.0, 0.0);
        for _ in 0..self.attempts {
            attempts += weight;
            slots += weight * (1.0 + (window - 1.0) / 2.0);
            weight *= collision;
            window = (2.0 * window).min(most);
        }
        attempts / slots
    }

    /// Probability that a station sends in a slot (Bianchi's τ).
    pub fn access_probability(&self) -> f64 {
        let others = f64::from(self.stations - 1);
        let collides = |access: f64| 1.0 - libm::pow(1.0 - access, others);
        // The attempt rate falls with the collision probability, and the collision probability grows with the attempt
        // rate. So there is one solution.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..200 {
            let access = f64::midpoint(low, high);
            if self.attempts_per_slot(collides(access)) > access { low = access } else { high = access }
        }
        f64::midpoint(low, high)
    }

    /// Packets per second of all stations together, with one packet per frame.
    ///
    /// # Errors
    /// An airtime that is not positive.
    pub fn packets_per_s(&self, airtimes: &Airtimes) -> Result<f64, TheoryError> {
        let slot = positive("slot_s", airtimes.slot_s)?;
        let success = positive("success_s", airtimes.success_s)?;
        let collision = positive("collision_s", airtimes.collision_s)?;
        let (access, n) = (self.access_probability(), f64::from(self.stations));
        let idle = libm::pow(1.0 - access, n);
        let alone = n * access * libm::pow(1.0 - access, n - 1.0);
        let collided = 1.0 - idle - alone;
        let (packets, success, collision) = match self.rule {
            SlotRule::Counted => (1.0, success, collision),
            SlotRule::Frozen => {
                // The station that has just sent sends again immediately with probability 1/(CWmin + 1). This may
                // repeat.
                let again = 1.0 / (f64::from(self.cw_min) + 1.0);
                (1.0 / (1.0 - again), success / (1.0 - again) + slot, collision + slot)
            }
        };
        Ok(alone * packets / (idle * slot + alone * success + collided * collision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data of 254 µs, SIFS, ACK of 34 µs, DIFS of 28 µs; after a collision an ACKTimeout of 39 µs.
    const G: Airtimes = Airtimes { slot_s: 9e-6, success_s: 326e-6, collision_s: 321e-6 };

    fn saturation(stations: u32, rule: SlotRule) -> Saturation {
        Saturation::new(stations, 15, 1023, 7, rule).unwrap()
    }

    /// One station never collides: its cycle is an exchange and 7.5 slots, for either rule.
    #[test]
    fn one_station_is_a_sum() {
        for rule in [SlotRule::Frozen, SlotRule::Counted] {
            let rate = saturation(1, rule).packets_per_s(&G).unwrap();
            assert!((rate * (326e-6 + 7.5 * 9e-6) - 1.0).abs() < 1e-9, "{rule:?}: {rate}");
        }
        assert!((saturation(1, SlotRule::Counted).access_probability() - 2.0 / 17.0).abs() < 1e-12);
    }

    /// Bianchi's closed form for an unlimited number of attempts:
    /// τ = 2(1 − 2p) / ((1 − 2p)(W + 1) + pW(1 − (2p)^m)).
    #[test]
    fn without_a_limit_of_attempts_it_is_bianchis() {
        for stations in [2, 5, 10, 50] {
            let model = Saturation::new(stations, 15, 1023, 100_000, SlotRule::Counted).unwrap();
            let others = f64::from(stations - 1);
            let (p, w) = (1.0 - libm::pow(1.0 - model.access_probability(), others), 16.0);
            let doubled = libm::pow(2.0 * p, 6.0);
            let bianchi = 2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - doubled));
            assert!((model.access_probability() / bianchi - 1.0).abs() < 1e-9, "{stations}");
        }
    }

    #[test]
    fn packets_grow_fewer_as_stations_grow_more() {
        let rates: Vec<f64> =
            (1..=20).map(|n| saturation(n, SlotRule::Counted).packets_per_s(&G).unwrap()).collect();
        // Two stations use the channel better than one, because a single station leaves it idle during backoff. With
        // more stations, collisions dominate.
        assert!(rates[1] > rates[0] && rates[2..].is_sorted_by(|a, b| a > b), "{rates:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Saturation::new(0, 15, 1023, 7, SlotRule::Frozen).is_err());
        assert!(Saturation::new(1, 31, 15, 7, SlotRule::Frozen).is_err());
        let rate = saturation(2, SlotRule::Frozen).packets_per_s(&Airtimes { slot_s: 0.0, ..G });
        assert!(rate.unwrap_err().to_string().contains("slot_s must be a positive finite number"));
    }
}
