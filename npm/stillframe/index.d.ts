/** What a setting can be: a directive of redis.conf, several for directives that repeat. */
export type Setting = string | number | boolean | Array<string | number | boolean>

export interface Options {
  /** The data directory, made if it is missing. Without it, data is in a folder that goes with the server. */
  dir?: string
  /** A port on 127.0.0.1 beside the unix socket; 0: one that the system chooses, and no unix socket. */
  port?: number
  /**
   * Directives of redis.conf and of this server, such as `{ appendonly: true, maxmemory: '1gb' }`, but for those that
   * the package makes itself: bind, daemonize, dir, end-with-stdin, log-format, logfile, port, unixsocket.
   */
  settings?: Record<string, Setting>
  /** Gets each line of the log. */
  onLog?: (line: string) => void
}

/** A server in a process of its own, which ends with this one, however this one ends. */
export class Stillframe {
  private constructor ()
  /** Starts a server; resolves once it has loaded its data and serves. Rejects with the reason and the last lines of its log. */
  static start (options?: Options): Promise<Stillframe>
  /** The data directory. */
  readonly dir: string
  /** The unix socket, or null. */
  readonly path: string | null
  /** The port on 127.0.0.1, or null. */
  readonly port: number | null
  /** The number of its process. */
  readonly pid: number
  /** The address as a URL. Clients take a unix socket by `path`. */
  readonly url: string
  /** Stops it as SIGTERM does: saves if there is a schedule. Rejects if the server has failed. */
  stop (): Promise<void>
  /** Kills it, as a crash would. */
  kill (): Promise<void>
  /** Resolves when the server has ended; keeps no program running that has nothing else to do. */
  readonly ended: Promise<{ code: number | null, signal: string | null, wasAsked: boolean }>
  [Symbol.asyncDispose] (): Promise<void>
}
export default Stillframe

/** The path of the server's program. */
export function binary (): string
