//! Two TCP endpoints with each other, compared with the RFCs and with closed forms.

mod by_hand;
mod flow_control;
mod ns2;
mod opening;
mod pair;
mod recovery;
mod rules;
mod slow_reader;
mod table;
mod transfer;
mod window;
