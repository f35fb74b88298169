//! The `ServerOrder` of a server of netrig, made from its settings.

use std::net::IpAddr;

use netrig_core::Seeds;

use super::server::{ServerRole, ServerSettings};
use crate::digest::Algorithm;
use crate::load::Plan;
use crate::sdp::DISCARD;
use crate::server::{Answer, AnsweringPolicy, ProgressResponse, Role, ServerOrder, User};
use crate::{Status, Uri};

impl ServerSettings {
    /// The server for the users of `plan`, at this address.
    pub fn order(&self, plan: &Plan, local: IpAddr, seeds: Seeds) -> ServerOrder {
        let all = u64::from(plan.users) * 2 + u64::from(plan.population);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // Any user is accepted, unless users have passwords or contacts.
        let named = self.digest.is_some() || self.contact.is_some();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let user = |number| User {
            name: text(plan.names.of(number).as_bytes()),
            password: text(plan.passwords.of(number).as_bytes()),
            contact: None,
        };
        let domain = plan.domain.as_ref().and_then(|name| format!("sip:{name}").parse::<Uri>().ok());
        let domain = domain.and_then(|uri| Some(uri.as_sip()?.host.clone()));
        ServerOrder {
            role: self.role(local),
            domains: domain.into_iter().collect(),
            users: named.then(|| (0..all).map(user).collect()),
            contact: self.contact.clone(),
            digest: self.digest.map(Algorithm::from),
            realm: None,
            most_transactions: self.max_transactions as usize,
            most_users: all as usize,
            timing: plan.timing,
            seeds,
        }
    }

    /// The role of the server. A user agent offers media at this address.
    pub fn role(&self, local: IpAddr) -> Role {
        match self.role {
            ServerRole::Registrar => Role::Registrar,
            ServerRole::Proxy => Role::Proxy { record_route: self.record_route },
            ServerRole::StatelessProxy => Role::StatelessProxy,
            ServerRole::Redirect => Role::Redirect,
            ServerRole::Uas => {
                let ring = self.ring.unwrap_or_default();
                let answer = match self.refuse.and_then(Status::new) {
                    Some(status) => Answer::Refuse(ring, status),
                    None => Answer::Accept(ring),
                };
                let own = AnsweringPolicy::new((local, DISCARD).into());
                let mut manners = AnsweringPolicy { answer, reliable: self.reliable, ..own };
                if self.early_media {
                    manners.progress.push(ProgressResponse::early_media());
                }
                Role::UserAgent(manners)
            }
        }
    }
}
