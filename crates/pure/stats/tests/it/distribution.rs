use netrig_stats::distribution::{Binomial, Normal, StudentT};
use netrig_stats::special::beta_inc;

use crate::{close, near};

#[test]
fn incomplete_beta_matches_forty_digit_values() {
    for (a, b, x, expected) in [
        (0.5, 0.5, 0.3, 0.369_010_119_565_545_4),
        (2.0, 3.0, 0.4, 0.524_8),
        (10.0, 0.5, 0.9, 0.151_640_909_634_709_92),
        (30.0, 70.0, 0.35, 0.861_575_475_866_109_2),
        (500.0, 0.5, 0.995, 0.025_200_765_362_045_845),
        (5000.0, 7000.0, 0.42, 0.770_687_853_543_787_7),
        (0.01, 4.0, 0.001, 0.950_429_226_724_280_5),
    ] {
        close(beta_inc(a, b, x), expected, 1e-11);
        close(beta_inc(b, a, 1.0 - x), 1.0 - expected, 1e-10);
    }
    assert_eq!((beta_inc(2.0, 3.0, 0.0), beta_inc(2.0, 3.0, 1.0)), (0.0, 1.0));
    assert!(beta_inc(2.0, 3.0, 1.5).is_nan() && beta_inc(0.0, 3.0, 0.5).is_nan());
}

#[test]
fn student_quantiles_match_forty_digit_values() {
    for (df, p, expected) in [
        (1.0, 0.975, 12.706_204_736_174_705),
        (2.0, 0.975, 4.302_652_729_749_464),
        (4.5, 0.99, 3.527_050_890_626_092_5),
        (9.0, 0.975, 2.262_157_162_798_205_5),
        (30.0, 0.9999, 4.233_985_957_272_021),
        (3.0, 0.999_999_9, 222.571_590_947_198_73),
        (0.5, 0.9, 10.270_324_410_234_506),
    ] {
        let t = StudentT::new(df).unwrap();
        // 1 - p has a rounding error of 1e-16, which the far tail magnifies.
        close(t.quantile(p).unwrap(), expected, 1e-9);
        close(t.quantile(1.0 - p).unwrap(), -expected, 1e-9);
        close(t.cdf(expected), p, 1e-12);
    }
}

#[test]
fn student_table_of_the_textbooks() {
    let table = [(5.0, 2.571), (10.0, 2.228), (15.0, 2.131), (20.0, 2.086), (60.0, 2.000), (120.0, 1.980)];
    for (df, expected) in table {
        near(StudentT::new(df).unwrap().quantile(0.975).unwrap(), expected, 0.0005);
    }
}

#[test]
fn normal_quantiles_match_forty_digit_values() {
    for (p, expected) in [
        (0.975, 1.959_963_984_540_054_2),
        (0.995, 2.575_829_303_548_901),
        (0.6, 0.253_347_103_135_799_8),
        (0.999_999, 4.753_424_308_822_899),
        (1e-10, -6.361_340_902_404_056),
        (0.5001, 0.000_250_662_830_088_035_1),
    ] {
        close(Normal.quantile(p).unwrap(), expected, 1e-10);
    }
    assert_eq!(Normal.quantile(0.0), Ok(f64::NEG_INFINITY));
    assert_eq!(Normal.quantile(1.0), Ok(f64::INFINITY));
    close(Normal.upper(6.0), 9.865_876_450_376_98e-10, 1e-12);
    assert!(Normal.quantile(1.1).is_err() && Normal.quantile(f64::NAN).is_err());
}

#[test]
fn binomial_counts_coins() {
    let coins = Binomial::new(10, 0.5).unwrap();
    close(coins.cdf(2), 56.0 / 1024.0, 1e-13);
    close(coins.upper(2), 968.0 / 1024.0, 1e-13);
    assert_eq!((coins.cdf(10), coins.upper(10)), (1.0, 0.0));
}
