use netrig_stats::fit::{anderson_darling_exponential, kolmogorov_smirnov, line};

use crate::{Random, close, near};

/// A sample of `n` values whose distance from the uniform distribution is `d`.
fn sample_at_distance(d: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i + 1) as f64 / n as f64 - d).max(0.0)).collect()
}

#[test]
fn kolmogorov_smirnov_stands_at_the_tabulated_critical_values() {
    // Massey (1951) and SciPy's exact kstwo: critical D at 10 %, 5 % and 1 %.
    for (n, critical) in [
        (5, [0.509_45, 0.563_28, 0.668_53]),
        (10, [0.368_66, 0.409_25, 0.488_93]),
        (20, [0.264_73, 0.294_08, 0.352_41]),
        (100, [0.120_66, 0.134_03, 0.160_81]),
    ] {
        for (d, level) in critical.into_iter().zip([0.10, 0.05, 0.01]) {
            let test = kolmogorov_smirnov(&sample_at_distance(d, n), |x| x).unwrap();
            near(test.statistic, d, 1e-12);
            near(test.p_value, level, 0.004);
        }
    }
}

#[test]
fn kolmogorov_smirnov_matches_scipys_exact_p() {
    let values = [0.03, 0.11, 0.2, 0.24, 0.3, 0.45, 0.47, 0.58, 0.72, 0.91];
    let test = kolmogorov_smirnov(&values, |x| x).unwrap();
    near(test.statistic, 0.23, 1e-12);
    near(test.p_value, 0.5886, 0.025);
    let squares = values.map(|v| v * v);
    near(kolmogorov_smirnov(&squares, |x| x).unwrap().p_value, 0.0124, 0.004);
    assert!(kolmogorov_smirnov(&values, |x| 2.0 * x).is_err());
    close(kolmogorov_smirnov(&[0.5], |x| x).unwrap().statistic, 0.5, 1e-15);
}

#[test]
fn anderson_darling_matches_scipy_and_stephens_table() {
    let gaps = [0.1, 0.3, 0.45, 0.7, 0.9, 1.4, 1.8, 2.5, 3.1, 5.2];
    let test = anderson_darling_exponential(&gaps).unwrap();
    close(test.statistic, 0.094_286_367_995_151_12, 1e-10);
    assert!(test.p_value > 0.95);
    let constant: Vec<f64> = (0..50).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
    assert!(anderson_darling_exponential(&constant).unwrap().p_value < 1e-3);
    assert!(anderson_darling_exponential(&[1.0, 0.0, 2.0]).is_err());
}

#[test]
fn anderson_darling_rejects_one_of_twenty_poisson_streams() {
    let mut random = Random(41);
    let rejected = (0..4000)
        .filter(|_| {
            let gaps: Vec<f64> = (0..30).map(|_| 3.0 * random.exponential()).collect();
            anderson_darling_exponential(&gaps).unwrap().p_value < 0.05
        })
        .count();
    assert!((150..=250).contains(&rejected), "{rejected} of 4000");
}

#[test]
fn line_matches_scipy() {
    let x: Vec<f64> = (1..=10).map(f64::from).collect();
    let y = [2.1, 3.9, 6.2, 7.8, 10.1, 12.2, 13.8, 16.1, 18.0, 20.2];
    let fitted = line(&x, &y, 0.95).unwrap();
    close(fitted.slope.estimate, 2.007_272_727_272_727_3, 1e-12);
    close(fitted.slope.low.unwrap(), 1.965_205_853_690_035_6, 1e-11);
    close(fitted.slope.high.unwrap(), 2.049_339_600_855_419, 1e-11);
    near(fitted.intercept.estimate, 0.0, 1e-12);
    close(fitted.intercept.half_width().unwrap(), 0.261_018_086_234_178_4, 1e-10);
    close(fitted.r_squared, 0.999_669_788_360_330_8 * 0.999_669_788_360_330_8, 1e-12);
    close(fitted.p_value.unwrap(), 5.199_666_229_089_358e-14, 1e-8);
    close(fitted.at(5.5).unwrap().estimate, 11.04, 1e-12);
    let through_two = line(&[1.0, 2.0], &[3.0, 5.0], 0.95).unwrap();
    assert_eq!((through_two.slope.estimate, through_two.slope.low, through_two.p_value), (2.0, None, None));
    assert!(line(&[1.0, 1.0], &[1.0, 2.0], 0.95).is_err());
}
