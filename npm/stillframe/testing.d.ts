import type { Options, Stillframe } from './index'

/** What a test runner gives to files of tests. */
export interface Hooks {
  beforeAll (action: () => Promise<void> | void): void
  beforeEach (action: () => Promise<void> | void): void
  afterAll (action: () => Promise<void> | void): void
}

/** Starts one server before the tests of a file and stops it behind them; each test finds it empty. */
export function useStillframe (options?: Options, hooks?: Hooks): { readonly server: Stillframe }
