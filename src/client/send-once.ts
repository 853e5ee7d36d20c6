/**
 * Sends one request about a lease for a caller that keeps no handle of it, such as a command. The request has one id
 * however often it is sent, so a lost answer is asked for again and its effect happens once. It gives up after 10 s.
 */
import { refusalError, type Queued, type Refusal } from '../core/outcome.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { retry } from './retry.ts'

const ANSWERED_WITHIN_MS = 10_000

type Answered<Kind extends string> = { readonly kind: Kind }

/** Resolves to the answer of the expected kind; a refusal is thrown. */
export async function sendOnce<Kind extends string, Answer extends Answered<Kind>>(
  runtime: Runtime,
  kind: Kind,
  send: (requestId: string) => Promise<Answer | Queued | Refusal>,
): Promise<Answer> {
  const requestId = runtime.uuid()
  const limits = { runtime, withinMs: ANSWERED_WITHIN_MS }
  const answer = await retry(limits, () => send(requestId))
  if (answer.kind === kind) return answer as Answer
  if (answer.kind === 'queued') throw new Error('a request that may not wait was queued')
  throw refusalError(answer as Refusal)
}
