//! CRC32c, the checksum of an SCTP packet (RFC 9260 appendix A).

/// The generator polynomial 0x1EDC6F41 in reversed bit order, because the least significant bit is processed first.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// `TABLES[k][b]` is the remainder of byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// CRC32c of `bytes`. It is sent with the least significant byte first (RFC 9260 appendix A).
pub fn crc32c(bytes: &[u8]) -> u32 {
    extend(0, bytes)
}

/// CRC32c of a byte string whose first part has the checksum `crc` and whose second part is `bytes`.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = !crc;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]) ^ crc;
        let [a, b, c, d] = low.to_le_bytes().map(usize::from);
        crc = TABLES[7][a] ^ TABLES[6][b] ^ TABLES[5][c] ^ TABLES[4][d];
        for (table, byte) in [3, 2, 1, 0].into_iter().zip(&eight[4..]) {
            crc ^= TABLES[table][usize::from(*byte)];
        }
    }
    for byte in eights.remainder() {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xFF) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 3720 appendix B.4.
    #[test]
    fn the_known_vectors() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&ascending), 0x46DD_794E);
        assert_eq!(crc32c(&descending), 0x113F_DB5C);
        let read_10_command = [
            0x01, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0,
            0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(crc32c(&read_10_command), 0xD996_3A56);
    }

    /// The check value in the catalogue of CRCs (Koopman; Castagnoli 1993).
    #[test]
    fn lengths_that_are_no_multiple_of_eight() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
        for cut in 0..=9 {
            let (front, back) = b"123456789".split_at(cut);
            assert_eq!(extend(crc32c(front), back), 0xE306_9283);
        }
    }
}
