//! Call-IDs, tags and branches that contain the position of their call, so that the call of a response is found without
//! a table.

use crate::digits::{hex, put_hex};
use crate::header::MAGIC_COOKIE;
use crate::slab::Key;

/// Hexadecimal digits of a token.
const TOKEN: usize = 28;
/// Bytes of a branch: the cookie, a token, and the number of the transaction.
const BRANCH: usize = MAGIC_COOKIE.len() + TOKEN + 4;

/// The owner of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A registration. The index is that of the user.
    Registration,
    /// An attempt of a caller, with the behavior of a callee of the same load.
    Caller(CalleeAction),
    /// A call at its callee. The token is in the tag of the callee.
    Callee,
}

/// How a callee must behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CalleeAction {
    /// Ring, then answer.
    #[default]
    Answer,
    /// Refuse with 486.
    Refuse,
    /// Ring, and never answer.
    Ring,
    /// Send a 183 with a session description, then answer.
    Progress,
    /// Send reliable provisional responses (RFC 3262), then answer.
    Reliable,
    /// Answer at two contacts of the user.
    Both,
}

impl Owner {
    const ALL: [Self; 8] = [
        Self::Registration,
        Self::Caller(CalleeAction::Answer),
        Self::Caller(CalleeAction::Refuse),
        Self::Caller(CalleeAction::Ring),
        Self::Caller(CalleeAction::Progress),
        Self::Caller(CalleeAction::Reliable),
        Self::Caller(CalleeAction::Both),
        Self::Callee,
    ];
}

/// Position of an attempt in one shard of one run. As text it has 28 hexadecimal digits: eight of the run, three of
/// the shard, one of the owner, eight of the generation, eight of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// Number of the run. It must be random, so that a server's state from an earlier run is not mistaken for this
    /// run's.
    pub run: u32,
    /// Number of the shard, below 4096.
    pub shard: u16,
    /// The owner.
    pub owner: Owner,
    /// Position within the machine of the owner.
    pub key: Key,
}

impl Token {
    /// The token as text.
    pub fn digits(&self) -> [u8; TOKEN] {
        let mut out = [0; TOKEN];
        let owner = Owner::ALL.iter().position(|owner| *owner == self.owner).unwrap_or_default();
        put_hex(self.run.into(), &mut out[..8]);
        put_hex(u64::from(self.shard) << 4 | owner as u64, &mut out[8..12]);
        put_hex(self.key.generation.into(), &mut out[12..20]);
        put_hex(self.key.index.into(), &mut out[20..]);
        out
    }

    /// Parses a text that has only a token, or a Call-ID with an `@` after it.
    pub fn read(text: &[u8]) -> Option<Self> {
        let (digits, rest) = text.split_at_checked(TOKEN)?;
        if !matches!(rest.first(), None | Some(b'@')) {
            return None;
        }
        let (head, place) = (hex(&digits[..12])?, hex(&digits[12..])?);
        let owner = *Owner::ALL.get((head & 15) as usize)?;
        let key = Key { index: place as u32, generation: (place >> 32) as u32 };
        Some(Self { run: (head >> 16) as u32, shard: (head >> 4) as u16 & 0xfff, owner, key })
    }

    /// The branch of one of its transactions.
    pub fn branch(&self, transaction: u16) -> [u8; BRANCH] {
        let mut out = [0; BRANCH];
        let (cookie, rest) = out.split_at_mut(MAGIC_COOKIE.len());
        cookie.copy_from_slice(MAGIC_COOKIE.as_bytes());
        rest[..TOKEN].copy_from_slice(&self.digits());
        put_hex(transaction.into(), &mut rest[TOKEN..]);
        out
    }

    /// Parses a branch that [`Token::branch`] has made.
    pub fn read_branch(branch: &[u8]) -> Option<(Self, u16)> {
        let rest = branch.strip_prefix(MAGIC_COOKIE.as_bytes())?;
        let (token, transaction) = rest.split_at_checked(TOKEN)?;
        let transaction = hex(transaction).filter(|_| transaction.len() == 4)?;
        Some((Self::read(token)?, transaction as u16))
    }
}

/// Number of bits of the `CSeq` in the number of a transaction. The bits above them have the index of the server.
const NUMBER: u32 = 12;

/// The bit above the bits of the server index. It distinguishes the transaction of an ACK, which has the `CSeq` of its
/// INVITE.
const ACK: u16 = 0x8000;

/// The number of a transaction: its `CSeq`, and the index of the server. The next server gets "a new request, which
/// is identical to the previous, but has a different value of the Via branch ID than the previous" (RFC 3263 section
/// 4.3).
pub(crate) const fn transaction(cseq: u32, server: u8) -> u16 {
    number_of(cseq) | ((server & 7) as u16) << NUMBER
}

/// The number of the transaction of the ACK for a 2xx to the INVITE with this `CSeq`.
pub(crate) const fn acknowledgement(cseq: u32, server: u8) -> u16 {
    transaction(cseq, server) | ACK
}

/// The bits of a `CSeq` in the number of a transaction.
pub(crate) const fn number_of(cseq: u32) -> u16 {
    cseq as u16 & ((1 << NUMBER) - 1)
}

/// The index of the server in the number of a transaction.
pub(crate) const fn server_of(transaction: u16) -> u8 {
    (transaction >> NUMBER) as u8 & 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for owner in Owner::ALL {
            let key = Key { index: 0xfedc_ba98, generation: 7 };
            let token = Token { run: 0x8123_4567, shard: 0xabc, owner, key };
            assert_eq!(Token::read(&token.digits()), Some(token));
            assert_eq!(Token::read(&[&token.digits()[..], b"@192.0.2.1"].concat()), Some(token));
            assert_eq!(Token::read_branch(&token.branch(0x8001)), Some((token, 0x8001)));
        }
    }

    #[test]
    fn a_transaction_says_which_server_it_asks() {
        let asked = transaction(4097, 5);
        assert_eq!((number_of(asked.into()), server_of(asked)), (number_of(4097), 5));
        assert_ne!(asked, transaction(4097, 4));
        assert_eq!(server_of(acknowledgement(1, 7)), 7);
        assert_ne!(acknowledgement(1, 7), transaction(1, 7));
    }

    #[test]
    fn other_texts_are_none() {
        let right = Token { run: 1, shard: 2, owner: Owner::Callee, key: Key { index: 3, generation: 4 } };
        let digits = right.digits();
        assert_eq!(Token::read(&digits[1..]), None);
        assert_eq!(Token::read(&[&digits[..], b"0"].concat()), None);
        assert_eq!(Token::read(&digits.map(|digit| digit.to_ascii_uppercase() | 0x40)), None);
        assert_eq!(Token::read_branch(&right.branch(1)[1..]), None);
        assert_eq!(Token::read_branch(&right.branch(1)[..BRANCH - 1]), None);
    }
}
