/**
 * A `LeaseApi` as another process would have it: every request and answer, and every error, is text in between. What comes
 * back is read by its description, so that an answer which is described wrongly does not pass.
 */
import { isLeaseError, LeaseError } from '../../src/core/errors.ts'
import { readAnswer } from '../../src/protocol/answers.ts'
import type { RequestName } from '../../src/protocol/requests.ts'
import type { LeaseApi, LedgerEntry } from '../../src/service/lease-api.ts'

type AnyCall = (...input: readonly unknown[]) => Promise<unknown>

/** What is called at once, or has no request: nothing of it goes over a wire. */
const LOCAL: ReadonlySet<string> = new Set(['standBy', 'close', 'settled'])

export function overJson<Api extends LeaseApi>(api: Api): Api {
  return new Proxy(api, {
    get: (target, name: string): unknown => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (LOCAL.has(name)) return value.bind(target)
      if (name === 'watch') {
        return (filter: unknown, locals: unknown): AsyncIterable<LedgerEntry> =>
          entriesOf(Reflect.apply(value, target, [asText(filter), locals]))
      }
      return async (request: unknown, listener?: unknown): Promise<unknown> => {
        const call: AnyCall = value.bind(target)
        const answer = await call(asText(request), listener).catch(rethrownAsText)
        if (name === 'onWake') return answer
        return readAnswer(name as RequestName, asText(answer ?? null))
      }
    },
  })
}

async function* entriesOf(entries: AsyncIterable<LedgerEntry>): AsyncGenerator<LedgerEntry> {
  for await (const entry of entries) yield readAnswer('watch', asText(entry)) as LedgerEntry
}

function asText(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value))
}

function rethrownAsText(error: unknown): never {
  if (!isLeaseError(error)) throw error
  const { code, message, ...rest } = asText(error) as LeaseError
  throw new LeaseError(code, message, rest)
}
