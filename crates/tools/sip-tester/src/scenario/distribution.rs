//! Random numbers from the distributions of a scenario.

use netrig_core::Stream;

use super::action::ScriptDistribution;
use super::run::ScriptRun;

/// A random number from a distribution.
pub(super) fn drawn(distribution: ScriptDistribution, run: &mut ScriptRun) -> f64 {
    let draws = &mut run.draws;
    match distribution {
        ScriptDistribution::Fixed(value) => value,
        ScriptDistribution::Uniform { least, most } => least + (most - least) * draws.uniform(),
        ScriptDistribution::Normal { mean, deviation } => draws.normal(mean, deviation),
        ScriptDistribution::LogNormal { mean, deviation } => libm::exp(draws.normal(mean, deviation)),
        ScriptDistribution::Exponential { mean } => draws.exponential(mean),
        ScriptDistribution::Weibull { scale, shape } => {
            scale * libm::pow(draws.exponential(1.0), 1.0 / shape)
        }
        ScriptDistribution::Pareto { shape, least } => draws.pareto(least, shape),
        ScriptDistribution::GeneralizedPareto { shape, scale, location } => {
            let rest = 1.0 - draws.uniform();
            if shape == 0.0 {
                location - scale * libm::log(rest)
            } else {
                location + scale * (libm::pow(rest, -shape) - 1.0) / shape
            }
        }
        ScriptDistribution::Gamma { shape, scale } => scale * gamma(shape, draws),
        ScriptDistribution::NegativeBinomial { successes, probability } => {
            let mean = gamma(successes, draws) * (1.0 - probability) / probability;
            poisson(mean, draws)
        }
    }
}

/// A random number from the gamma distribution with scale 1, by the method of Marsaglia and Tsang (2000).
fn gamma(shape: f64, draws: &mut Stream) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, draws) * libm::pow(1.0 - draws.uniform(), 1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = draws.normal(0.0, 1.0);
        let root = 1.0 + c * normal;
        let v = root * root * root;
        if v > 0.0 && libm::log(1.0 - draws.uniform()) < 0.5 * normal * normal + d - d * v + d * libm::log(v)
        {
            return d * v;
        }
    }
}

/// A random number from the Poisson distribution: the number of arrivals with exponential gaps.
fn poisson(mean: f64, draws: &mut Stream) -> f64 {
    let (mut time, mut count) = (draws.exponential(1.0), 0.0);
    while time < mean && count < 1e6 {
        time += draws.exponential(1.0);
        count += 1.0;
    }
    count
}
