use netrig_stats::distribution::{Binomial, ChiSquare, FisherF, Normal, StudentT};
use netrig_stats::special::{beta_inc, gamma_p, gamma_q};

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
fn incomplete_gamma_matches_forty_digit_values() {
    for (a, x, p, q) in [
        (0.5, 0.2, 0.472_910_743_134_461_9, 0.527_089_256_865_538_1),
        (1.0, 3.0, 0.950_212_931_632_136, 0.049_787_068_367_863_94),
        (3.5, 2.0, 0.220_222_591_524_284_07, 0.779_777_408_475_715_9),
        (10.0, 25.0, 0.999_778_523_361_751_2, 0.000_221_476_638_248_783_58),
        (100.0, 90.0, 0.158_220_989_186_430_17, 0.841_779_010_813_569_8),
        (1000.0, 1100.0, 0.998_940_676_746_07, 0.001_059_323_253_929_977_4),
        (0.01, 0.5, 0.994_373_243_806_032_8, 0.005_626_756_193_967_184),
    ] {
        close(gamma_p(a, x), p, 1e-12);
        close(gamma_q(a, x), q, 1e-12);
    }
    assert_eq!((gamma_p(2.0, 0.0), gamma_q(2.0, f64::INFINITY)), (0.0, 0.0));
    assert!(gamma_p(-1.0, 1.0).is_nan());
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
        // 1 - p has an error of 1e-16, which the far tail magnifies.
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
fn chi_square_quantiles_match_forty_digit_values_and_the_table() {
    for (df, p, expected) in [
        (1.0, 0.95, 3.841_458_820_694_126),
        (10.0, 0.05, 3.940_299_136_119_06),
        (99.0, 0.975, 128.421_988_643_840_3),
        (0.5, 0.01, 1.349_939_585_911_693_5e-8),
    ] {
        close(ChiSquare::new(df).unwrap().quantile(p).unwrap(), expected, 1e-10);
    }
    for (df, expected) in [(2.0, 5.991), (5.0, 11.070), (20.0, 31.410), (100.0, 124.342)] {
        near(ChiSquare::new(df).unwrap().quantile(0.95).unwrap(), expected, 0.0005);
    }
}

#[test]
fn f_quantiles_match_forty_digit_values_and_the_table() {
    for (numerator, denominator, p, expected) in [
        (1.0, 1.0, 0.95, 161.447_638_797_588_5),
        (5.0, 10.0, 0.95, 3.325_834_530_413_012),
        (20.0, 3.0, 0.01, 0.202_503_207_667_438_18),
    ] {
        let f = FisherF::new(numerator, denominator).unwrap();
        close(f.quantile(p).unwrap(), expected, 1e-10);
        close(f.cdf(expected) + f.upper(expected), 1.0, 1e-14);
    }
    near(FisherF::new(4.0, 20.0).unwrap().quantile(0.95).unwrap(), 2.87, 0.005);
    assert!(FisherF::new(0.0, 1.0).is_err());
}

#[test]
fn binomial_counts_coins() {
    let coins = Binomial::new(10, 0.5).unwrap();
    close(coins.cdf(2), 56.0 / 1024.0, 1e-13);
    close(coins.upper(2), 968.0 / 1024.0, 1e-13);
    assert_eq!((coins.cdf(10), coins.upper(10)), (1.0, 0.0));
}
