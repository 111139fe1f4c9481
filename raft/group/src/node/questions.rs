//! What members ask of each other beside raft.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::{LogId, Vote};
use serde::{Deserialize, Serialize};
use stillframe_raft_net::{ForwardError, Id, Listener, Member, Sender, Serving};
use stillframe_server::consensus::{Event, Message, Settings};

use super::Running;
use crate::error::Error;

/// Time for a question to another member.
pub(super) const QUESTION: Duration = Duration::from_secs(2);
/// A question of so many bytes has a second more.
const SLOWEST_BYTES: usize = 256 << 10;

/// How often, and how many times, others are asked whether this member was let go.
const LOOK: Duration = Duration::from_millis(250);
const LOOKS: u32 = 20;

/// What members ask of each other beside raft.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Stand for election.
    Elect,
    /// Say whether you belong to a group; the answer is a byte, 1 for yes.
    Belongs,
    /// Hear that you were let go, and ask the others whether it is so.
    LetGo,
    /// Give your subscribers these messages.
    Deliver(Vec<WireMessage>),
    /// Say what you think of a candidate whose log ends with this entry; the answer is an
    /// `Opinion`.
    MayStand(Option<LogId<u64>>),
    /// Say which group you belong to: [`Belonging`].
    ///
    /// [`Belonging`]: super::begin::Belonging
    Belonging,
    /// Keep this id of the group that is about to begin.
    Found([u8; 16]),
    /// Say whether you know that the one who asks belongs to your group no more; the answer is a
    /// byte, 1 for yes.
    Lacks,
    /// Say whether these have met your directory as it is now; the answer is a byte, 1 for yes.
    HasMet(BTreeSet<u64>),
    /// Say that you know of bindings to certificates, by any answer.
    Binds,
    /// Have the log bind the one who asks to this key.
    Renew([u8; 32]),
    /// As `MayStand`, of a candidate in this term; if you agree, make that vote durable first.
    Prepare(u64, Option<LogId<u64>>),
    /// Say to what the log binds members, as far as you have applied it: `Bindings`.
    Bindings,
}

/// What a member says to another that is about to stand for election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Opinion {
    /// It would get this member's vote.
    Agrees,
    /// There is a leader.
    HasLeader,
    /// This member has just voted: that election comes first.
    HasVoted,
    /// The log of this member is newer.
    HasMore,
    /// Refused for one of these reasons, and no member of the group as far as is known here.
    Removed,
}

impl Question {
    /// Whether anybody may ask it: it tells who belongs to the group and changes nothing. One that
    /// is on its way into a group, or has lost its directory, does not know the group's id.
    fn is_open(&self) -> bool {
        match self {
            Self::Belongs | Self::MayStand(_) | Self::Belonging | Self::Lacks | Self::Binds => true,
            Self::Elect
            | Self::LetGo
            | Self::Deliver(_)
            | Self::Found(_)
            | Self::HasMet(_)
            | Self::Renew(_)
            | Self::Prepare(..)
            | Self::Bindings => false,
        }
    }

    /// Bytes of the messages in it.
    fn bytes(&self) -> usize {
        match self {
            Self::Deliver(messages) => messages.iter().map(WireMessage::bytes).sum(),
            _ => 0,
        }
    }
}

/// A message on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WireMessage {
    is_sharded: bool,
    #[serde(with = "serde_bytes")]
    channel: Vec<u8>,
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

impl WireMessage {
    pub(super) fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + size_of::<Self>()
    }
}

impl From<Message> for WireMessage {
    fn from(Message { is_sharded, channel, payload }: Message) -> Self {
        Self { is_sharded, channel, payload }
    }
}

impl From<WireMessage> for Message {
    fn from(WireMessage { is_sharded, channel, payload }: WireMessage) -> Self {
        Self { is_sharded, channel, payload }
    }
}

/// Answers the other members.
pub(super) fn serve(listener: Listener, node: &Running, settings: &Settings) -> Serving {
    let (ours, settings) = (node.clone(), settings.clone());
    listener.serve(node.raft.clone(), move |sender, question| {
        let (node, settings) = (ours.clone(), settings.clone());
        async move {
            node.answer(sender, &question, &settings).await.map_err(|error| error.to_string())
        }
    })
}

impl Running {
    async fn answer(
        &self,
        sender: Sender,
        question: &[u8],
        settings: &Settings,
    ) -> Result<Vec<u8>, Error> {
        let Sender { node: sender, is_of_group } = sender;
        let question: Question = postcard::from_bytes(question)?;
        if !is_of_group && !question.is_open() {
            return Err(Error::Stranger { id: sender });
        }
        match question {
            Question::Elect => {
                let vote = self.raft.metrics().borrow().vote;
                if !vote.committed || vote.leader_id.node_id != sender {
                    return Err(Error::DoesNotLead { id: sender, term: vote.leader_id.term });
                }
                let elected = self.raft.trigger().elect().await;
                elected.map(|()| Vec::new()).map_err(Error::raft)
            }
            Question::Belongs => {
                let belongs = self.raft.is_initialized().await.map_err(Error::raft)?;
                Ok(vec![u8::from(belongs)])
            }
            Question::Deliver(said) => {
                let messages = said.into_iter().map(Message::from).collect();
                self.events.ask(|reply| Event::Messages(messages, reply)).await?;
                Ok(Vec::new())
            }
            Question::LetGo => {
                let (node, looks) = (self.clone(), Arc::clone(&self.looks));
                // One look is enough, however often it is said.
                if let Ok(look) = looks.try_acquire_owned() {
                    tokio::spawn(async move {
                        node.leave_if_let_go(sender).await;
                        drop(look);
                    });
                }
                Ok(Vec::new())
            }
            Question::MayStand(last) => {
                let opinion = self.elections.opinion(sender, last).await?;
                Ok(postcard::to_allocvec(&opinion)?)
            }
            Question::Prepare(term, last) => {
                let opinion = self.elections.opinion(sender, last).await?;
                if opinion == Opinion::Agrees {
                    let prepared = self.log.prepare_vote(Vote::new(term, sender)).await;
                    prepared.map_err(Error::raft)?;
                }
                Ok(postcard::to_allocvec(&opinion)?)
            }
            Question::Lacks => Ok(vec![u8::from(self.lacks(sender))]),
            Question::Binds => Ok(Vec::new()),
            Question::Bindings => Ok(postcard::to_allocvec(&self.bindings())?),
            Question::Renew(key) => self.renew(sender, key).await.map(|()| Vec::new()),
            Question::HasMet(members) => Ok(vec![u8::from(self.has_met(&members))]),
            Question::Belonging => {
                let belonging = self.belonging(settings).await?;
                Ok(postcard::to_allocvec(&belonging)?)
            }
            Question::Found(id) => {
                let nameless = || Error::raft("a group without an id");
                let id = Id::from_bytes(id).ok_or_else(nameless)?;
                self.found_with(sender, id, settings).await?;
                Ok(Vec::new())
            }
        }
    }

    /// Whether the members that count are known, and this one is none of them.
    fn lacks(&self, id: u64) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let known = &metrics.membership_config;
        let counts = known.log_id().is_some() && *known.log_id() <= metrics.last_applied;
        counts && known.membership().get_node(&id).is_none()
    }

    /// Ends the elections of this member if most others know that it was let go: anybody could say
    /// so, and who has not heard of it soon learns it by votes that are refused.
    async fn leave_if_let_go(&self, leader: u64) {
        for _ in 0..LOOKS {
            let known = self.raft.metrics().borrow().membership_config.clone();
            let voters = known.membership().voter_ids().filter(|&id| id != self.id);
            let others: Vec<u64> = voters.collect();
            let mut lack = 0;
            for &id in &others {
                let Some(member) = known.membership().get_node(&id) else { continue };
                lack += usize::from(
                    self.ask(id, member, &Question::Lacks).await.is_ok_and(|it| it == [1]),
                );
            }
            if lack > others.len() / 2 {
                return self.elections.end(leader);
            }
            tokio::time::sleep(LOOK).await;
        }
        tracing::warn!(
            "member {leader} says that this member was removed from its group, which most others do \
             not know of: it stays"
        );
    }

    /// Asks another member.
    pub(super) async fn ask(
        &self,
        id: u64,
        member: &Member,
        question: &Question,
    ) -> Result<Vec<u8>, Error> {
        let time = QUESTION + Duration::from_secs((question.bytes() / SLOWEST_BYTES) as u64);
        let asked = self.ask_within(id, member, question, time).await;
        asked.map_err(|why| Error::Unanswered { id, address: member.raft.clone(), why })
    }

    /// Asks another member what it thinks of this one as a candidate.
    pub(super) async fn ask_opinion(
        &self,
        id: u64,
        member: &Member,
        last: Option<LogId<u64>>,
        time: Duration,
    ) -> Option<Opinion> {
        opinion_of(self.ask_within(id, member, &Question::MayStand(last), time).await)
    }

    /// Asks another member, which has so much time.
    pub(super) async fn ask_within(
        &self,
        id: u64,
        member: &Member,
        question: &Question,
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        let encoded = postcard::to_allocvec(question);
        let encoded = encoded.map_err(|error| ForwardError::Refused(error.to_string()))?;
        match question {
            Question::MayStand(_) => self.network.forward_first(id, member, &encoded, time).await,
            // They may be long on their way, and no other question waits behind them.
            Question::Deliver(_) => self.network.forward_bulk(id, member, &encoded, time).await,
            _ => self.network.forward(id, member, &encoded, time).await,
        }
    }
}

/// What an answer says, if there is one. Who does not know the question is of a version that says
/// nothing against an election.
fn opinion_of(answer: Result<Vec<u8>, ForwardError>) -> Option<Opinion> {
    match answer {
        Ok(answer) => postcard::from_bytes(&answer).ok(),
        Err(why) if is_unknown(&why) => Some(Opinion::Agrees),
        Err(_) => None,
    }
}

/// Whether a question was refused because the other member does not know it: it could not read it,
/// as versions since 25 November 2026 say it.
pub(super) fn is_unknown(why: &ForwardError) -> bool {
    let unread = postcard::Error::SerdeDeCustom;
    let texts = [unread.to_string(), format!("{unread:?}"), Error::Message(unread).to_string()];
    matches!(why, ForwardError::Refused(text) if texts.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_not_known_counts_as_agreed_and_silence_does_not() {
        let known = postcard::to_allocvec(&Opinion::HasMore).expect("a byte");
        assert_eq!(opinion_of(Ok(known)), Some(Opinion::HasMore));
        assert_eq!(opinion_of(Ok(vec![200])), None);
        assert_eq!(opinion_of(Err(ForwardError::Timeout)), None);
        // As commits say it: from ef450724 on, from 0abc5a77 on, and since e8d44cf7.
        for text in [
            "Serde Deserialization Error",
            "SerdeDeCustom",
            "a message between members: Serde Deserialization Error",
        ] {
            let refused = ForwardError::Refused(text.into());
            assert_eq!(opinion_of(Err(refused)), Some(Opinion::Agrees), "{text}");
        }
        for why in [
            Error::Stranger { id: 2 },
            Error::raft("this member has ended"),
            Error::ServerEnded,
            Error::Message(postcard::Error::DeserializeUnexpectedEnd),
        ] {
            let refused = ForwardError::Refused(why.to_string());
            assert_eq!(opinion_of(Err(refused)), None, "{why}");
        }
    }

    #[test]
    fn a_question_of_a_later_version_is_refused_as_one_that_is_not_known() {
        // The number of a question, and what it asks.
        let error = postcard::from_bytes::<Question>(&[200, 1, 7]).expect_err("there are fewer");
        let refused = ForwardError::Refused(Error::from(error).to_string());
        assert!(is_unknown(&refused), "{refused:?}");
    }
}
