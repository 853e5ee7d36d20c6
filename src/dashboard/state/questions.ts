/**
 * What views ask the server: whatever it is about, asked again when that may have changed, and the ledger of a span of time,
 * read backwards from its end in pages, as far as a page can show it.
 */
import { useSignal, type ReadonlySignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { LEASE_EVENT_TYPES, type LeaseEventType } from '../../core/event.ts'
import { isLeaseError } from '../../core/errors.ts'
import { countText } from '../parts/words.ts'
import { readEventPage, type LedgerRow } from '../wire/answers.ts'
import { pathWith, ProblemError, type ServerCalls } from '../wire/server-calls.ts'
import { pause } from '../page-runtime.ts'

export interface HistoryQuestion {
  readonly resource?: string
  readonly holder?: string
  readonly fromMs?: number
  readonly toMs?: number
  readonly types?: readonly LeaseEventType[]
  /** How many pages of 1,000 events at most. */
  readonly pagesMax: number
}

export interface History {
  /** In order of commit. */
  readonly rows: readonly LedgerRow[]
  /** There was more, before the first of them. */
  readonly isCut: boolean
}

const PAGE_ROWS = 1_000

/** What is said of a history that was not read to its beginning. */
export function cutText(past: Asked<History>, pagesMax: number): string {
  const isCut = past.kind === 'answered' && past.answer.isCut
  return isCut ? `, among the newest ${countText(pagesMax * PAGE_ROWS)} events` : ''
}

/** Renewals are most of what happens, and change no ownership. */
const FREQUENT: ReadonlySet<LeaseEventType> = new Set<LeaseEventType>([
  ...(['lease.renewed', 'lease.waiting', 'lease.accounted', 'lease.advanced'] as const),
])
export const DECISIVE_TYPES: readonly LeaseEventType[] = LEASE_EVENT_TYPES.filter((type) => {
  return !FREQUENT.has(type)
})

/** A page that begins in the middle of a millisecond begins with some of what the page before ended with. */
export async function readHistory(
  calls: ServerCalls,
  { resource, holder, fromMs, toMs, types, pagesMax }: HistoryQuestion,
  signal: AbortSignal,
): Promise<History> {
  const rows = new Map<string, LedgerRow>()
  let untilMs = toMs
  for (let page = 0; page < pagesMax; page += 1) {
    const query = { resource, holder, fromMs, toMs: untilMs, types: types?.join(',') }
    const path = pathWith('/v1/events', {
      ...query,
      newestFirst: true,
      limit: PAGE_ROWS,
      refusals: false,
    })
    const { events } = readEventPage(await calls.json(path, { signal }))
    const before = rows.size
    for (const row of events) rows.set(row.position, row)
    const isAll = events.length < PAGE_ROWS || rows.size === before
    if (isAll) return { rows: [...rows.values()].toReversed(), isCut: false }
    untilMs = events.at(-1)?.event.atMs
  }
  return { rows: [...rows.values()].toReversed(), isCut: true }
}

export type Asked<Answer> =
  | { readonly kind: 'asking' }
  | { readonly kind: 'answered'; readonly answer: Answer }
  | { readonly kind: 'refused'; readonly problem: string }

type Ask<Answer> = (stop: AbortSignal) => Promise<Answer>

/** Questions follow each other with a rest between them, however often things change. */
const REST_MS = 300

/**
 * Asks when `subject` is another one, which must name all that `ask` depends on; and again when `version` is another number,
 * keeping the answer until the next one is there.
 */
export function useAsked<Answer>(
  subject: string,
  version: number,
  ask: Ask<Answer>,
): ReadonlySignal<Asked<Answer>> {
  const asked = useSignal<Asked<Answer>>({ kind: 'asking' })
  const question = useRef<Question<Answer> | null>(null)
  useEffect(() => {
    const own = new Question(ask, (result) => (asked.value = result))
    question.current = own
    asked.value = { kind: 'asking' }
    return () => own.end()
  }, [subject])
  useEffect(() => question.current?.again(), [subject, version])
  return asked
}

class Question<Answer> {
  readonly #ask: Ask<Answer>
  readonly #tell: (result: Asked<Answer>) => void
  readonly #stop = new AbortController()
  #isUnderWay = false
  #isWanted = false

  constructor(ask: Ask<Answer>, tell: (result: Asked<Answer>) => void) {
    this.#ask = ask
    this.#tell = tell
  }

  again(): void {
    this.#isWanted = true
    if (!this.#isUnderWay) void this.#run()
  }

  end(): void {
    this.#stop.abort()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    this.#isUnderWay = true
    while (this.#isWanted && !signal.aborted) {
      this.#isWanted = false
      const result = await this.#answer(signal)
      if (signal.aborted) return
      this.#tell(result)
      await pause(REST_MS, signal)
    }
    this.#isUnderWay = false
  }

  async #answer(signal: AbortSignal): Promise<Asked<Answer>> {
    try {
      return { kind: 'answered', answer: await this.#ask(signal) }
    } catch (error) {
      // What was asked for is no resource, or the answer says what this page does not know.
      const isTold = error instanceof ProblemError || isLeaseError(error)
      if (isTold) return { kind: 'refused', problem: error.message }
      // The view that ended the question is gone, and takes no answer.
      if (signal.aborted) return { kind: 'asking' }
      throw error
    }
  }
}
