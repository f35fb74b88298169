//! The knee of a response over a factor: the point at which the curve bends.

use super::{Alternative, Comparison, means::one_mean, t_statistic};
use crate::error::{StatsError, check_confidence, check_levels, check_sample};
use crate::interval::{EstimationMethod, Interval, critical_t};
use crate::summary::{Summary, mean, mean_and_squares};

/// A line with one bend has four parameters. A fifth point leaves one degree of freedom for the fit.
const FEWEST_LEVELS: usize = 5;

/// The knee of a curve, and a test that there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// The location of the bend, in the unit of x. It is meaningful only if `p_value` shows that the curve bends.
    pub location: Interval,
    /// The slope left of the knee, in units of y per unit of x.
    pub slope_before: f64,
    /// The slope right of the knee.
    pub slope_after: f64,
    /// The two-sided p-value against a straight line; `None` at one replication. The test is Student's t over the
    /// quadratic coefficients of the replications. The mean of these coefficients is 0 for a straight line. For a bent
    /// line it has the sign of the bend, wherever the knee is. The test does not search for the knee, so it is exact
    /// for normal values with any dependence over x.
    pub p_value: Option<f64>,
}

/// The knee of a mean curve: the breakpoint of the two joined straight lines that fit the curve best by least squares.
///
/// `levels[i][r]` is y at `x[i]` in replication r; `x` rises strictly. The fit is exact (Hudson 1966,
/// *Fitting segmented curves whose join points have to be estimated*): the best breakpoint is either an inner
/// x or the point where the lines through both sides meet.
///
/// A point is in the interval of the location unless a test at that point shows that the lines meet left of it, or that
/// they meet right of it. For each gap between neighbouring x, one line is fitted to the points left of the gap, and one
/// to the points right of it. The test at a point in the gap is Student's t over replications, of the vertical distance
/// of the two lines at that point (Fieller's theorem). Each replication is one value, so
/// common random numbers over x are taken into account, and two replications give a wide interval. At one replication
/// the interval is open and there is no p-value.
///
/// # Errors
/// Fewer than five levels, no replication, lengths that differ, a value that is not finite, `x` that does not
/// rise, or `confidence` not strictly between 0 and 1.
pub fn knee(x: &[f64], levels: &[Vec<f64>], confidence: f64) -> Result<Knee, StatsError> {
    let replications = check_levels(levels, FEWEST_LEVELS, 1)?;
    check_abscissa(x, levels.len())?;
    check_confidence(confidence)?;
    let curves: Vec<Vec<f64>> = (0..replications).map(|r| levels.iter().map(|l| l[r]).collect()).collect();
    let best = Hinge::best(x, &mean_curve(&curves));
    let ends = match replications {
        1 => None,
        n => Some(reach(x, &curves, best.bend.signum(), critical_t(n as f64 - 1.0, confidence)?)),
    };
    let (low, high) = (ends.map(|ends| ends.0.min(best.at)), ends.map(|ends| ends.1.max(best.at)));
    let (n, method) = (replications, EstimationMethod::Fieller);
    let location = Interval { estimate: best.at, low, high, n, confidence, method };
    let p_value = curvature(x, &curves, confidence)?.p_value;
    Ok(Knee { location, slope_before: best.slope, slope_after: best.slope + best.bend, p_value })
}

/// The lower and upper end of the knee's interval, for a bend of this sign.
fn reach(x: &[f64], curves: &[Vec<f64>], sign: f64, t: f64) -> (f64, f64) {
    let gaps: Vec<KneeStep> = (2..=x.len() - 2).map(|split| KneeStep::of(x, curves, split, sign)).collect();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut hold = |place: f64| (low, high) = (low.min(place), high.max(place));
    for (gap, ends) in gaps.iter().zip(x[1..].windows(2)) {
        let roots = gap.where_significant(t).into_iter().flatten();
        roots.filter(|root| (ends[0]..=ends[1]).contains(root)).for_each(&mut hold);
    }
    // At a level of x itself, the gaps on both sides are tested.
    for (index, place) in x[1..x.len() - 1].iter().enumerate() {
        let is_left_of_it = index > 0 && gaps[index - 1].t(*place) > t;
        let is_right_of_it = gaps.get(index).is_some_and(|gap| gap.t(*place) < -t);
        if !is_left_of_it && !is_right_of_it {
            hold(*place);
        }
    }
    (low, high)
}

/// The height at a point p of the line right of a gap above the line left of the gap: a + b p, the mean over
/// replications, multiplied by the sign of the bend. It is 0 where the lines meet and positive to the right of that point.
struct KneeStep {
    a: f64,
    b: f64,
    /// Squared standard errors of a and b, and their covariance.
    errors: [f64; 3],
}

impl KneeStep {
    fn of(x: &[f64], curves: &[Vec<f64>], split: usize, sign: f64) -> Self {
        let step = |y: &Vec<f64>| {
            let (slope_left, x_left, y_left) = line(&x[..split], &y[..split]);
            let (slope_right, x_right, y_right) = line(&x[split..], &y[split..]);
            let a = y_right - slope_right * x_right - (y_left - slope_left * x_left);
            (sign * a, sign * (slope_right - slope_left))
        };
        let steps: Vec<(f64, f64)> = curves.iter().map(step).collect();
        let n = steps.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| steps.iter().map(of).sum::<f64>() / n;
        let (a, b) = (mean(|step| step.0), mean(|step| step.1));
        let error = |products: f64| products / (n * (n - 1.0));
        let sum = |of: &dyn Fn(f64, f64) -> f64| steps.iter().map(|step| of(step.0 - a, step.1 - b)).sum();
        let errors = [error(sum(&|a, _| a * a)), error(sum(&|_, b| b * b)), error(sum(&|a, b| a * b))];
        Self { a, b, errors }
    }

    /// The t statistic at the point `place`.
    fn t(&self, place: f64) -> f64 {
        let [a, b, shared] = self.errors;
        t_statistic(self.a + self.b * place, (a + 2.0 * shared * place + b * place * place).max(0.0).sqrt())
    }

    /// The points at which the t statistic is `t` or `-t`.
    fn where_significant(&self, t: f64) -> [Option<f64>; 2] {
        let square = t * t;
        let quadratic = self.b * self.b - square * self.errors[1];
        let half = self.a * self.b - square * self.errors[2];
        let rest = self.a * self.a - square * self.errors[0];
        let root = half * half - quadratic * rest;
        if root < 0.0 || quadratic == 0.0 {
            return [None; 2];
        }
        [Some((-half - root.sqrt()) / quadratic), Some((-half + root.sqrt()) / quadratic)]
    }
}

/// The test of the mean quadratic coefficient. The coefficient comes from the regression of y on the residuals of x²
/// after a straight-line fit.
fn curvature(x: &[f64], curves: &[Vec<f64>], confidence: f64) -> Result<Comparison, StatsError> {
    let (_, mean_x, _) = line(x, x);
    let squares: Vec<f64> = x.iter().map(|v| (v - mean_x) * (v - mean_x)).collect();
    let (_, contrast) = detrend(x, &squares);
    let coefficient = |y: &Vec<f64>| dot(&contrast, y) / dot(&contrast, &contrast);
    let coefficients: Summary = curves.iter().map(coefficient).collect();
    one_mean(&coefficients, 0.0, Alternative::TwoSided, confidence)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(p, q)| p * q).sum()
}

fn check_abscissa(x: &[f64], levels: usize) -> Result<(), StatsError> {
    if x.len() != levels {
        return Err(StatsError::LengthsDiffer { left: x.len(), right: levels });
    }
    check_sample(x, FEWEST_LEVELS)?;
    match x.windows(2).find(|w| w[0] >= w[1]) {
        Some(w) => Err(StatsError::OutOfRange { what: "x", range: "strictly rising", value: w[1] }),
        None => Ok(()),
    }
}

fn mean_curve(curves: &[Vec<f64>]) -> Vec<f64> {
    let mean = |i: usize| curves.iter().map(|curve| curve[i]).sum::<f64>() / curves.len() as f64;
    (0..curves[0].len()).map(mean).collect()
}

/// Two straight lines that meet at `at`.
struct Hinge {
    at: f64,
    slope: f64,
    bend: f64,
    squares: f64,
}

impl Hinge {
    /// The hinge with the smallest sum of squares. If several are equal, the first candidate.
    fn best(x: &[f64], y: &[f64]) -> Self {
        let inner = &x[1..x.len() - 1];
        let meetings = (2..=x.len() - 2).filter_map(|split| meeting(x, y, split));
        let candidates = inner.iter().copied().chain(meetings);
        let mut best = Self::fit(x, y, inner[0]);
        for candidate in candidates {
            let hinge = Self::fit(x, y, candidate);
            if hinge.squares < best.squares {
                best = hinge;
            }
        }
        best
    }

    /// The least-squares hinge with its join at `at`: the regression of the residuals of y on the residuals of max(x -
    /// at, 0), both after a straight-line fit (Frisch and Waugh 1933).
    fn fit(x: &[f64], y: &[f64], at: f64) -> Self {
        let ramp: Vec<f64> = x.iter().map(|v| (v - at).max(0.0)).collect();
        let (slope_y, rest_y) = detrend(x, y);
        let (slope_ramp, rest_ramp) = detrend(x, &ramp);
        let bend = dot(&rest_ramp, &rest_y) / dot(&rest_ramp, &rest_ramp);
        let squares = rest_y.iter().zip(&rest_ramp).map(|(v, r)| v - bend * r).map(|e| e * e).sum();
        Self { at, slope: slope_y - bend * slope_ramp, bend, squares }
    }
}

/// The slope of the least-squares line and the residuals.
fn detrend(x: &[f64], y: &[f64]) -> (f64, Vec<f64>) {
    let (slope, mean_x, mean_y) = line(x, y);
    (slope, x.iter().zip(y).map(|(a, b)| b - mean_y - slope * (a - mean_x)).collect())
}

/// The slope of the least-squares line, and the means of x and y.
fn line(x: &[f64], y: &[f64]) -> (f64, f64, f64) {
    let ((mean_x, squares), mean_y) = (mean_and_squares(x), mean(y));
    let products: f64 = x.iter().zip(y).map(|(a, b)| (a - mean_x) * (b - mean_y)).sum();
    (products / squares, mean_x, mean_y)
}

/// The x at which the line through the first `split` points meets the line through the other points. `None` if x is not
/// between these two groups of points.
fn meeting(x: &[f64], y: &[f64], split: usize) -> Option<f64> {
    let (slope_left, x_left, y_left) = line(&x[..split], &y[..split]);
    let (slope_right, x_right, y_right) = line(&x[split..], &y[split..]);
    let at = (y_right - y_left + slope_left * x_left - slope_right * x_right) / (slope_left - slope_right);
    (x[split - 1] < at && at < x[split]).then_some(at)
}
