//! Quality metrics of a picture, from its luma.

/// Maximum of an 8-bit sample.
const PEAK: f64 = 255.0;
/// Side and step of the SSIM windows, samples. ffmpeg and x264 use the same values.
const WINDOW: usize = 8;
const STEP: usize = 4;

/// Peak signal-to-noise ratio of two planes of the same size, dB; infinite if they are the same, `None` if they cannot
/// be compared.
pub fn psnr_db(one: &[u8], other: &[u8]) -> Option<f64> {
    if one.len() != other.len() || one.is_empty() {
        return None;
    }
    let squares: u64 = one.iter().zip(other).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum();
    let mean = squares as f64 / one.len() as f64;
    Some(if squares == 0 { f64::INFINITY } else { 10.0 * libm::log10(PEAK * PEAK / mean) })
}

/// Structural similarity of two planes of this width: the mean over windows of 8 by 8 samples at every fourth sample,
/// -1 to 1. `None` if they cannot be compared or have no window.
///
/// Source: Wang, Bovik, Sheikh, Simoncelli (2004), *Image quality assessment: from error visibility to structural
/// similarity*, equation 13, with K1 = 0.01 and K2 = 0.03.
pub fn ssim(one: &[u8], other: &[u8], width: usize) -> Option<f64> {
    if one.len() != other.len() || width < WINDOW || !one.len().is_multiple_of(width) {
        return None;
    }
    let height = one.len() / width;
    let (mut sum, mut windows) = (0.0, 0_u32);
    for top in (0..height.checked_sub(WINDOW - 1)?).step_by(STEP) {
        for left in (0..=width - WINDOW).step_by(STEP) {
            sum += window_ssim(one, other, width, top * width + left);
            windows += 1;
        }
    }
    (windows > 0).then(|| sum / f64::from(windows))
}

/// SSIM of the window whose first sample has the index `from`.
fn window_ssim(one: &[u8], other: &[u8], width: usize, from: usize) -> f64 {
    let c1 = (0.01 * PEAK) * (0.01 * PEAK);
    let c2 = (0.03 * PEAK) * (0.03 * PEAK);
    let [mut a, mut b, mut aa, mut bb, mut ab] = [0_u32; 5];
    for row in 0..WINDOW {
        let at = from + row * width;
        for (x, y) in one[at..at + WINDOW].iter().zip(&other[at..at + WINDOW]) {
            let (x, y) = (u32::from(*x), u32::from(*y));
            a += x;
            b += y;
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
    }
    let n = (WINDOW * WINDOW) as f64;
    let (mean_a, mean_b) = (f64::from(a) / n, f64::from(b) / n);
    let spread = |squares: u32, product: f64| (f64::from(squares) - n * product) / (n - 1.0);
    let covariance = spread(ab, mean_a * mean_b);
    let variances = spread(aa, mean_a * mean_a) + spread(bb, mean_b * mean_b);
    (2.0 * mean_a * mean_b + c1) * (2.0 * covariance + c2)
        / ((mean_a * mean_a + mean_b * mean_b + c1) * (variances + c2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If all samples differ by 1, the PSNR is 10 log10(255²) = 48.13 dB. If half of the samples differ by 2, the MSE
    /// is 2 and the PSNR 45.12 dB.
    #[test]
    fn psnr_by_hand() {
        assert!((psnr_db(&[10; 64], &[11; 64]).unwrap() - 48.1308).abs() < 1e-4);
        let half: Vec<u8> = (0..64).map(|at| 10 + at % 2 * 2).collect();
        assert!((psnr_db(&[10; 64], &half).unwrap() - 45.1205).abs() < 1e-4);
        assert_eq!(psnr_db(&[1, 2], &[1, 2]), Some(f64::INFINITY));
        assert_eq!((psnr_db(&[1], &[1, 2]), psnr_db(&[], &[])), (None, None));
    }

    /// Equal planes have an SSIM of 1. Two flat windows with values 100 and 110 differ only in their means, and their
    /// SSIM is (2 · 11000 + c1) / (10000 + 12100 + c1).
    #[test]
    fn ssim_by_hand() {
        let ramp: Vec<u8> = (0..=255).collect();
        assert!((ssim(&ramp, &ramp, 16).unwrap() - 1.0).abs() < 1e-12);
        let c1 = 6.5025;
        let flat = ssim(&[100; 64], &[110; 64], 8).unwrap();
        assert!((flat - (22_000.0 + c1) / (22_100.0 + c1)).abs() < 1e-12, "{flat}");
        let turned: Vec<u8> = ramp.iter().rev().copied().collect();
        assert!(ssim(&ramp, &turned, 16).unwrap() < 0.0, "a negative is dissimilar");
        assert_eq!((ssim(&[0; 49], &[0; 49], 7), ssim(&[0; 56], &[0; 56], 8)), (None, None));
    }
}
