/**
 * Opens what a command works on and closes it again, however the work ends. Only what takes a lease or configures may make a
 * store: a question about a path that was mistyped must not be answered by an empty store that no process uses.
 */
import type { Tenure } from '../client/contract.ts'
import { openApi, openQuestions, openTenure, type OpenOptions } from '../open.ts'
import { isLeaseError, LeaseError } from '../core/errors.ts'
import { pause } from '../runtime/pause.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { Questions } from '../service/lease-questions.ts'
import { readAddress, type StoreOptions } from '../store-address.ts'
import type { Identity } from './identity.ts'

/** Works with what was opened, and closes it again. */
export async function useAndClose<Opened extends { close(): Promise<void> }, Result>(
  opened: Opened,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/** For commands that only look. */
export async function withQuestions<Result>(
  identity: Identity,
  work: (questions: Questions) => Promise<Result>,
): Promise<Result> {
  requireStore(identity)
  return useAndClose(await openQuestions(identity.url, storeOptionsOf(identity)), work)
}

/** For commands that end something, or look for who waits for whom: nothing is held, nothing waits. */
export async function withApi<Result>(
  identity: Identity,
  work: (api: LeaseApi) => Promise<Result>,
): Promise<Result> {
  requireStore(identity)
  return useAndClose(await openApi(identity.url, optionsOf(identity)), work)
}

/** How long a command waits for what it wants, and what ends the wait before. */
export interface OpenPatience {
  readonly waitMs: number | undefined
  readonly signal: AbortSignal
}

export const NO_PATIENCE: OpenPatience = { waitMs: undefined, signal: new AbortController().signal }

/**
 * For commands that hold. A session that several commands share does one thing after another. A store that is away is
 * opened again until the wait is over; the work hears how much of the wait is left.
 */
export async function withTenure<Result>(
  identity: Identity,
  patience: OpenPatience,
  work: (tenure: Tenure, left: Pick<OpenPatience, 'waitMs'>) => Promise<Result>,
): Promise<Result> {
  const session = identity.session === null ? {} : { session: identity.session, sequential: true }
  const options = { ...optionsOf(identity), ...session }
  const opened = await openWithin(patience, () => openTenure(identity.url, options))
  return useAndClose(opened.tenure, (tenure) => work(tenure, { waitMs: opened.waitMs }))
}

const REOPEN_MS = 100

/** A store that is there from the start leaves the whole wait for the queue. */
async function openWithin(
  { waitMs, signal }: OpenPatience,
  open: () => Promise<Tenure>,
): Promise<{ readonly tenure: Tenure; readonly waitMs: number | undefined }> {
  const startMs = systemRuntime.monotonicMs()
  for (let left = waitMs; ;) {
    try {
      return { tenure: await open(), waitMs: left }
    } catch (error) {
      const isAway = isLeaseError(error, 'STORE_UNAVAILABLE') && error.retryable
      left = Math.floor((waitMs ?? 0) - (systemRuntime.monotonicMs() - startMs) - REOPEN_MS)
      if (!isAway || signal.aborted || left <= 0) throw error
    }
    await pause(systemRuntime, REOPEN_MS, { keepAlive: true })
  }
}

/** Throws `STORE_UNAVAILABLE` for a file that was not made yet. */
export function requireStore(identity: Identity): void {
  const file = missingFileOf(identity)
  if (file === null) return
  const message = `no store at ${file}; tenure acquire and tenure run make one`
  throw new LeaseError('STORE_UNAVAILABLE', message, { details: { store: identity.url } })
}

/** The file of a store that is yet to be made; null where there is one, and for a server. */
export function missingFileOf(identity: Identity): string | null {
  return readAddress(identity.url, optionsOf(identity)).missingFile?.() ?? null
}

export function optionsOf(identity: Identity): OpenOptions {
  return { holder: identity.holder, ...storeOptionsOf(identity) }
}

/** The namespace, if one was named, and what a server wants to see. A token may be set beside a store that needs none. */
export function storeOptionsOf({
  url,
  namespace,
  token,
}: Pick<Identity, 'url' | 'namespace' | 'token'>): Pick<StoreOptions, 'namespace' | 'token'> {
  return {
    ...(namespace === null ? {} : { namespace }),
    ...(token === null || !/^https?:/.test(url) ? {} : { token }),
  }
}

/** Leaves out what was not given: to the library an absent option and an undefined one are different things. */
export function given<Values extends object>(
  values: Values,
): { readonly [Name in keyof Values]?: Exclude<Values[Name], undefined> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as {
    [Name in keyof Values]?: Exclude<Values[Name], undefined>
  }
}
