//! SQL for other programs, by Arrow Flight, on views of the server in this process.
//!
//! - A client that logs in begins a session, of one instant: that of its first question. It gets a
//!   new one when its view was given up, or when it logs in again. Who does not log in is the
//!   default user, and each question has an instant of its own.
//! - A statement is its own handle: nothing is kept between a plan and its rows but the session.
//! - Questions read tables of the view. They reach no file, and change no setting.

use std::any::Any;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::server::FlightSqlService;
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, CommandGetCatalogs, CommandGetDbSchemas,
    CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandPreparedStatementQuery,
    CommandStatementQuery, CommandStatementUpdate, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse,
    IpcMessage, SchemaAsIpc, Ticket,
};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::DataFrame;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use stillframe_server::{DataViewError, QueryWish, ViewDoor};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::declared::Declaration;
use crate::error::QueryError;
use crate::image::Image;
use crate::session::{Bounds, QuerySession, STACK_BYTES};

/// Most sessions of clients that have logged in.
const SESSIONS_MAX: usize = 1000;
/// How often sessions are looked at that nobody uses.
const SWEEP: Duration = Duration::from_secs(1);
/// How long answers under way may go on once the server ends.
const LINGER: Duration = Duration::from_secs(1);
/// How long a connection may say nothing until it is asked whether it is there, and until that is
/// answered.
const SILENCE: Duration = Duration::from_secs(30);
const CATALOG: &str = "datafusion";
const SCHEMA: &str = "public";

/// Answers what comes to a port, on threads of their own, until what this returns is dropped.
///
/// # Errors
/// A sentence: no threads, or the certificate cannot be used.
pub fn open(wish: QueryWish) -> Result<Box<dyn Any>, String> {
    serve(wish).map(|it| Box::new(it) as Box<dyn Any>).map_err(|error| error.to_string())
}

/// The threads that answer.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    threads: Option<tokio::runtime::Runtime>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(threads) = self.threads.take() {
            threads.shutdown_timeout(LINGER);
        }
    }
}

fn serve(wish: QueryWish) -> Result<Running, Box<dyn std::error::Error>> {
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(SILENCE))
        .http2_keepalive_timeout(Some(SILENCE));
    if let Some([certificates, key]) = &wish.tls {
        let [certificates, key] = [std::fs::read(certificates)?, std::fs::read(key)?];
        let identity = Identity::from_pem(certificates, key);
        server = server.tls_config(ServerTlsConfig::new().identity(identity))?;
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bounds =
        Bounds { memory_bytes: wish.memory_bytes, threads, temporary: std::env::temp_dir() };
    let timeout = Duration::from_secs(wish.timeout_seconds.into());
    let desk = Arc::new(Desk {
        views: wish.views,
        runtime: bounds.runtime()?,
        threads,
        timeout: (!timeout.is_zero()).then_some(timeout),
        sessions: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("query")
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(stillframe::os::lower_priority)
        .enable_all()
        .build()?;
    wish.listener.set_nonblocking(true)?;
    let listener = {
        let _within = runtime.enter();
        TcpListener::from_std(wish.listener)?
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let sweeper = Arc::clone(&desk);
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(SWEEP).await;
            sweeper.sweep();
        }
    });
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let answers = server
        .add_service(FlightServiceServer::new(Answers(desk)))
        .serve_with_incoming_shutdown(incoming, async move { drop(stopped.await) });
    runtime.spawn(answers);
    Ok(Running { stop: Some(stop), threads: Some(runtime) })
}

/// What all clients share.
struct Desk {
    views: ViewDoor,
    runtime: Arc<RuntimeEnv>,
    threads: usize,
    timeout: Option<Duration>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

/// A user, and the view that its questions are asked on.
struct Session {
    user: Vec<u8>,
    password: Vec<u8>,
    used: Mutex<Instant>,
    open: tokio::sync::Mutex<Open>,
}

/// The tables of a session while it has a view, and those that it has declared, which outlive it.
#[derive(Default)]
struct Open {
    tables: Option<QuerySession>,
    declared: Vec<Arc<Declaration>>,
}

impl Open {
    /// Gives the view back.
    fn close(&mut self) {
        if let Some(tables) = self.tables.take() {
            self.declared = tables.declared().to_vec();
        }
    }

    fn tables(&mut self) -> Result<&mut QuerySession, Status> {
        self.tables.as_mut().ok_or_else(|| Status::internal("no tables"))
    }
}

impl Session {
    fn new(user: &[u8], password: &[u8]) -> Arc<Self> {
        let (user, password) = (user.to_vec(), password.to_vec());
        let (used, open) = (Mutex::new(Instant::now()), tokio::sync::Mutex::default());
        Arc::new(Self { user, password, used, open })
    }
}

impl Desk {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends sessions that nobody uses, and gives back views that were given up.
    fn sweep(&self) {
        let mut sessions = self.lock();
        if let Some(timeout) = self.timeout {
            sessions.retain(|_, session| {
                let used = session.used.lock().unwrap_or_else(PoisonError::into_inner);
                // One that answers is in use.
                Arc::strong_count(session) > 1 || used.elapsed() < timeout
            });
        }
        for session in sessions.values() {
            if let Ok(mut open) = session.open.try_lock()
                && open.tables.as_ref().is_some_and(QuerySession::is_lost)
            {
                open.close();
            }
        }
    }

    /// The session of a request.
    fn session(&self, metadata: &MetadataMap) -> Result<Arc<Session>, Status> {
        let Some(said) = metadata.get("authorization") else {
            return Ok(Session::new(b"default", b""));
        };
        let said = said.to_str().map_err(|_| Status::unauthenticated("no authorization"))?;
        if let Some(token) = said.strip_prefix("Bearer ") {
            let session = self.lock().get(token).cloned();
            let session = session.ok_or_else(|| {
                Status::unauthenticated("the session has ended: nobody used it; log in again")
            })?;
            *session.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            return Ok(session);
        }
        let (user, password) = login(said)?;
        Ok(Session::new(&user, &password))
    }

    /// The view of a session, or a new one: as the rules of its user are now.
    fn view(&self, session: &Session, image: Option<&Image>) -> Result<Option<Image>, Status> {
        let (user, password) = (&session.user, &session.password);
        let view = match image.and_then(Image::view) {
            Some(view) => self.views.renew(view, user, password).map(|()| None),
            None => self.views.view_as(user, password).map(Image::of_view).map(Some),
        };
        view.map_err(|error| match error {
            DataViewError::WrongPassword => Status::unauthenticated(error.to_string()),
            DataViewError::NotAllowed => Status::permission_denied(error.to_string()),
            DataViewError::View(_) => Status::resource_exhausted(error.to_string()),
            _ => Status::unavailable(error.to_string()),
        })
    }

    /// The tables of a session, of one that is not lost.
    async fn tables<'s>(
        self: &Arc<Self>,
        session: &'s Arc<Session>,
    ) -> Result<tokio::sync::MutexGuard<'s, Open>, Status> {
        let mut open = session.open.lock().await;
        if open.tables.as_ref().is_some_and(QuerySession::is_lost) {
            // Its view is given back before another one is asked for.
            open.close();
        }
        let image = open.tables.as_ref().map(|it| Arc::clone(it.image()));
        let (desk, asks) = (Arc::clone(self), Arc::clone(session));
        let view = move || desk.view(&asks, image.as_deref());
        let view = tokio::task::spawn_blocking(view).await;
        let view = view.map_err(|error| Status::internal(error.to_string()));
        // Who may ask no more holds no view.
        let fresh = view.flatten().inspect_err(|_| open.close())?;
        if let Some(image) = fresh {
            let runtime = Arc::clone(&self.runtime);
            let fresh = QuerySession::within(image, false, runtime, self.threads);
            let mut fresh = fresh.map_err(failed)?.without_growth();
            fresh.redeclare(&open.declared).map_err(failed)?;
            open.tables = Some(fresh);
        }
        Ok(open)
    }

    /// The plan of a statement; `None` if it declared a table.
    async fn plan(
        self: &Arc<Self>,
        metadata: &MetadataMap,
        sql: &str,
    ) -> Result<Option<DataFrame>, Status> {
        let session = self.session(metadata)?;
        let mut open = self.tables(&session).await?;
        open.tables()?.plan(sql).await.map_err(failed)
    }
}

/// Name and password of `Basic`.
fn login(said: &str) -> Result<(Vec<u8>, Vec<u8>), Status> {
    let wrong = || Status::unauthenticated("authorization by Basic or Bearer is expected");
    let said = said.strip_prefix("Basic ").ok_or_else(wrong)?;
    // Some clients pad, some do not.
    const EITHER: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let said = GeneralPurpose::new(&STANDARD, EITHER).decode(said).map_err(|_| wrong())?;
    let colon = said.iter().position(|byte| *byte == b':').ok_or_else(wrong)?;
    Ok((said[..colon].to_vec(), said[colon + 1..].to_vec()))
}

fn failed(error: QueryError) -> Status {
    match error {
        QueryError::View(lost) => Status::aborted(lost.to_string()),
        error => Status::invalid_argument(error.to_string()),
    }
}

/// An error on the way, as a client reads it.
fn broken(error: datafusion::error::DataFusionError) -> FlightError {
    let status = match QueryError::from(error) {
        QueryError::View(lost) => Status::aborted(lost.to_string()),
        error => Status::internal(error.to_string()),
    };
    FlightError::Tonic(Box::new(status))
}

fn sql_of(handle: &[u8]) -> Result<&str, Status> {
    std::str::from_utf8(handle).map_err(|_| Status::invalid_argument("no such statement"))
}

fn schema_of(frame: Option<&DataFrame>) -> Schema {
    frame.map_or_else(Schema::empty, |frame| frame.schema().as_arrow().clone())
}

/// Where the rows of a command are.
fn info(
    schema: &Schema,
    command: &impl ProstMessageExt,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    let ticket = Ticket::new(command.as_any().encode_to_vec());
    let info = FlightInfo::new().try_with_schema(schema);
    let info = info.map_err(|error| Status::internal(error.to_string()))?;
    let endpoint = FlightEndpoint::new().with_ticket(ticket);
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(descriptor)))
}

type Rows = <Answers as FlightService>::DoGetStream;

/// One batch as an answer.
fn one(
    schema: arrow::datatypes::SchemaRef,
    batch: Result<RecordBatch, FlightError>,
) -> Response<Rows> {
    let rows = FlightDataEncoderBuilder::new().with_schema(schema);
    Response::new(Box::pin(rows.build(stream::iter([batch])).map_err(Status::from)))
}

/// Batches, until nobody takes the next one for so long: who does not read holds no view.
fn taken(
    mut batches: BoxStream<'static, Result<RecordBatch, FlightError>>,
    timeout: Option<Duration>,
) -> impl Stream<Item = Result<RecordBatch, FlightError>> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let work = tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = batches.next() => next,
                () = sender.closed() => return Ok(()),
            };
            let Some(batch) = next else { return Ok(()) };
            let sent = match timeout {
                Some(timeout) => tokio::time::timeout(timeout, sender.send(batch)).await,
                None => Ok(sender.send(batch).await),
            };
            let late = |_| Status::deadline_exceeded("the answer was not read for too long");
            if sent.map_err(late)?.is_err() {
                return Ok(());
            }
        }
    });
    let all = stream::poll_fn(move |context| receiver.poll_recv(context));
    // A panic must not look like the end of the answer.
    let end = async move { work.await.map_err(|error| Status::internal(error.to_string())) };
    let end = stream::once(end).filter_map(async |outcome| {
        let status = outcome.flatten().err()?;
        Some(Err(FlightError::Tonic(Box::new(status))))
    });
    all.chain(end)
}

/// The service; see the head of this file.
#[derive(Clone)]
struct Answers(Arc<Desk>);

impl Answers {
    async fn rows(&self, metadata: &MetadataMap, sql: &str) -> Result<Response<Rows>, Status> {
        let frame = self.0.plan(metadata, sql).await?;
        let schema = Arc::new(schema_of(frame.as_ref()));
        let batches = match frame {
            Some(frame) => {
                let batches = frame.execute_stream().await;
                let batches = batches.map_err(|error| Status::from(broken(error)))?;
                taken(batches.map_err(broken).boxed(), self.0.timeout).boxed()
            }
            None => stream::empty().boxed(),
        };
        let rows = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
        Ok(Response::new(Box::pin(rows.map_err(Status::from))))
    }

    /// The names of all tables, with their columns.
    async fn all_tables(&self, metadata: &MetadataMap) -> Result<Vec<(String, Schema)>, Status> {
        let session = self.0.session(metadata)?;
        let mut open = self.0.tables(&session).await?;
        let (tables, mut all) = (open.tables()?, Vec::new());
        for name in tables.tables() {
            let columns = tables.columns(&name).await.map_err(failed)?;
            all.push((name, columns));
        }
        Ok(all)
    }
}

#[tonic::async_trait]
impl FlightSqlService for Answers {
    type FlightService = Self;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<
        Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>>,
        Status,
    > {
        let session = self.0.session(request.metadata())?;
        // The view shows whether the user may come in, and is that of the session.
        drop(self.0.tables(&session).await?);
        let token = token()?;
        {
            let mut sessions = self.0.lock();
            if sessions.len() >= SESSIONS_MAX {
                return Err(Status::resource_exhausted("there are too many sessions"));
            }
            sessions.insert(token.clone(), session);
        }
        let said = format!("Bearer {token}").parse();
        let said = said.map_err(|_| Status::internal("a token that is no header"))?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let answer: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(stream::iter([Ok(answer)]));
        let mut response = Response::new(answer);
        response.metadata_mut().insert("authorization", said);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let frame = self.0.plan(request.metadata(), &query.query).await?;
        let ticket = TicketStatementQuery { statement_handle: query.query.into() };
        info(&schema_of(frame.as_ref()), &ticket, request.into_inner())
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.rows(request.metadata(), sql_of(&ticket.statement_handle)?).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let frame = self.0.plan(request.metadata(), &query.query).await?;
        let message: IpcMessage = SchemaAsIpc::new(&schema_of(frame.as_ref()), &Default::default())
            .try_into()
            .map_err(|error: arrow::error::ArrowError| Status::internal(error.to_string()))?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: query.query.into(),
            dataset_schema: message.0,
            parameter_schema: Default::default(),
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        _: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let sql = sql_of(&query.prepared_statement_handle)?;
        let frame = self.0.plan(request.metadata(), sql).await?;
        info(&schema_of(frame.as_ref()), &query, request.into_inner())
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        self.rows(request.metadata(), sql_of(&query.prepared_statement_handle)?).await
    }

    /// Declares a table.
    async fn do_put_statement_update(
        &self,
        ticket: CommandStatementUpdate,
        request: Request<arrow_flight::sql::server::PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        match self.0.plan(request.metadata(), &ticket.query).await? {
            None => Ok(0),
            Some(_) => Err(Status::invalid_argument("a question has rows: ask it as a query")),
        }
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&query.into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        _: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let mut builder = query.into_builder();
        builder.append(CATALOG);
        Ok(one(builder.schema(), builder.build()))
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&query.clone().into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        _: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let mut builder = query.into_builder();
        builder.append(CATALOG, SCHEMA);
        Ok(one(builder.schema(), builder.build()))
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&query.clone().into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let all = self.all_tables(request.metadata()).await?;
        let mut builder = query.into_builder();
        for (name, columns) in all {
            builder.append(CATALOG, SCHEMA, name, "TABLE", &columns)?;
        }
        Ok(one(builder.schema(), builder.build()))
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&query.into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let mut builder = query.into_builder();
        builder.append("TABLE");
        Ok(one(builder.schema(), builder.build()))
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let facts = facts()?;
        info(&query.clone().into_builder(&facts).schema(), &query, request.into_inner())
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        _: Request<Ticket>,
    ) -> Result<Response<Rows>, Status> {
        let facts = facts()?;
        let builder = query.into_builder(&facts);
        Ok(one(builder.schema(), builder.build()))
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

fn facts() -> Result<SqlInfoData, Status> {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Stillframe");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    facts.append(SqlInfo::FlightSqlServerReadOnly, true);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    facts.append(SqlInfo::FlightSqlServerTransaction, 0_i32);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    Ok(facts.build()?)
}

/// A name that nobody guesses.
fn token() -> Result<String, Status> {
    let mut bits = [0_u8; 16];
    getrandom::fill(&mut bits).map_err(|error| Status::internal(error.to_string()))?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
