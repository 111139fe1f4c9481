//! What members ask of each other beside raft.

use std::fmt::Debug;
use std::time::Duration;

use openraft::LogId;
use serde::{Deserialize, Serialize};
use stillframe_raft_net::{ForwardError, Listener, Member, Serving};
use stillframe_server::consensus::{Event, Message};

use super::elections::Opinion;
use super::{Elections, Running};
use crate::events::Events;

/// Time for a question to another member.
pub(super) const QUESTION: Duration = Duration::from_secs(2);
/// A question of so many bytes has a second more.
const SLOWEST_BYTES: usize = 256 << 10;

/// What members ask of each other beside raft.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Stand for election.
    Elect,
    /// Say whether you belong to a group; the answer is a byte, 1 for yes.
    Belongs,
    /// Hear that you were let go.
    LetGo,
    /// Give your subscribers these messages.
    Deliver(Vec<Said>),
    /// Say what you think of a candidate whose log ends with this entry; the answer is an
    /// `Opinion`.
    MayStand(Option<LogId<u64>>),
}

impl Question {
    /// Bytes of the messages in it.
    fn bytes(&self) -> usize {
        match self {
            Self::Deliver(said) => said.iter().map(Said::bytes).sum(),
            _ => 0,
        }
    }
}

/// A message on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Said {
    is_sharded: bool,
    #[serde(with = "serde_bytes")]
    channel: Vec<u8>,
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

impl Said {
    pub(super) fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + size_of::<Self>()
    }
}

impl From<Message> for Said {
    fn from(Message { is_sharded, channel, payload }: Message) -> Self {
        Self { is_sharded, channel, payload }
    }
}

impl From<Said> for Message {
    fn from(Said { is_sharded, channel, payload }: Said) -> Self {
        Self { is_sharded, channel, payload }
    }
}

/// Answers the other members.
pub(super) fn serve(listener: Listener, elections: &Elections, events: Events) -> Serving {
    let ours = elections.clone();
    listener.serve(elections.raft.clone(), move |sender, question| {
        let (elections, events) = (ours.clone(), events.clone());
        let raft = elections.raft.clone();
        async move {
            let text = |error: &dyn Debug| format!("{error:?}");
            match postcard::from_bytes(&question).map_err(|error| text(&error))? {
                Question::Elect => {
                    let elected = raft.trigger().elect().await;
                    elected.map(|()| Vec::new()).map_err(|error| text(&error))
                }
                Question::Belongs => {
                    let belongs = raft.is_initialized().await.map_err(|error| text(&error))?;
                    Ok(vec![u8::from(belongs)])
                }
                Question::Deliver(said) => {
                    let messages = said.into_iter().map(Message::from).collect();
                    events.ask(|reply| Event::Messages(messages, reply)).await?;
                    Ok(Vec::new())
                }
                Question::MayStand(last) => {
                    let opinion = elections.opinion(sender, last).await?;
                    postcard::to_allocvec(&opinion).map_err(|error| text(&error))
                }
                Question::LetGo => {
                    elections.end(sender);
                    Ok(Vec::new())
                }
            }
        }
    })
}

impl Running {
    /// Asks another member.
    pub(super) async fn ask(
        &self,
        id: u64,
        member: &Member,
        question: &Question,
    ) -> Result<Vec<u8>, String> {
        let time = QUESTION + Duration::from_secs((question.bytes() / SLOWEST_BYTES) as u64);
        let asked = self.ask_within(id, member, question, time).await;
        asked.map_err(|error| format!("member {id} at {} does not answer: {error}", member.raft))
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
    async fn ask_within(
        &self,
        id: u64,
        member: &Member,
        question: &Question,
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        let encoded = postcard::to_allocvec(question);
        let encoded = encoded.map_err(|error| ForwardError::Refused(error.to_string()))?;
        match question {
            // Not behind messages, which are many.
            Question::MayStand(_) => self.network.forward_first(id, member, &encoded, time).await,
            _ => self.network.forward(id, member, &encoded, time).await,
        }
    }
}

/// What an answer says, if there is one.
fn opinion_of(answer: Result<Vec<u8>, ForwardError>) -> Option<Opinion> {
    match answer {
        Ok(answer) => postcard::from_bytes(&answer).ok(),
        // It does not know the question.
        Err(ForwardError::Refused(_)) => Some(Opinion::Agrees),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_not_known_counts_as_agreed_and_silence_does_not() {
        let known = postcard::to_allocvec(&Opinion::HasMore).expect("a byte");
        assert_eq!(opinion_of(Ok(known)), Some(Opinion::HasMore));
        assert_eq!(opinion_of(Ok(vec![200])), None);
        let refused = ForwardError::Refused("no such question".into());
        assert_eq!(opinion_of(Err(refused)), Some(Opinion::Agrees));
        assert_eq!(opinion_of(Err(ForwardError::Timeout)), None);
    }
}
