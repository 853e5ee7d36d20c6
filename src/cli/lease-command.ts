/**
 * Commands about one lease that is named by its id or its resource. Each finds the lease, sends one request until it is
 * answered, and shows the effect. A command holds nothing, so it opens no client that would renew.
 */
import { retry } from '../client/retry.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { refusalError, type Queued, type Refusal } from '../core/outcome.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { OptionTable, Positional } from './arguments.ts'
import { defineCommand, type CliCall, type CliCommand, type CommandDefinition } from './command.ts'
import { findLease, type NamedLease } from './lease-argument.ts'
import { leaseCard } from './lease-card.ts'
import { interruptible } from './signals.ts'
import { withApi } from './store-access.ts'

export interface FoundLease extends NamedLease {
  readonly api: LeaseApi
  readonly holder: string
  readonly session: string
  /** Aborts at a signal, if the command waits. */
  readonly signal: AbortSignal
}

export interface LeaseEffect {
  /** What has changed, for a reader that does not get the answer. */
  readonly effect: string
  readonly answer: unknown
  readonly text: () => string
}

interface LeaseCommand<Table extends OptionTable> extends Omit<
  CommandDefinition<Table>,
  'positionals' | 'run'
> {
  readonly lease?: string
  /** What follows the lease. */
  readonly more?: readonly Positional[]
  /** Default: only a lease of the caller's own. */
  readonly isAnybodys?: boolean
  /** Default: it is over in a moment, and a signal ends it as any other program. */
  readonly isWaiting?: boolean
  /** Reads the call before a store is opened; what it returns acts on the lease. */
  readonly act: (call: CliCall<Table>) => (found: FoundLease) => Promise<LeaseEffect>
}

export function defineLeaseCommand<Table extends OptionTable>(
  definition: LeaseCommand<Table>,
): CliCommand {
  const { lease = 'the id of the lease, or its resource', more = [], act } = definition
  const { isAnybodys = false, isWaiting = false, ...rest } = definition
  return defineCommand({
    ...rest,
    positionals: [{ name: 'LEASE', help: lease }, ...more],
    run: async (call) => {
      const { identity, positionals, printer, cwd } = call
      const { holder } = identity
      const actOn = act(call)
      const work = (signal: AbortSignal): Promise<number> => {
        return withApi(identity, async (api) => {
          const question = { text: positionals[0] ?? '', cwd, holder: isAnybodys ? null : holder }
          const named = await findLease(api, question)
          const session = identity.session ?? holder
          const { effect, answer, text } = await actOn({ api, ...named, holder, session, signal })
          printer.effect(effect, answer, text)
          return 0
        })
      }
      if (isWaiting) return interruptible(({ signal }) => work(signal))
      return work(NEVER)
    },
  })
}

/** Of a command that no signal ends early. */
const NEVER = new AbortController().signal

const ANSWERED_WITHIN_MS = 10_000

/** Sends what may be sent twice, again while the store is away or its answer was lost. It gives up after 10 s. */
export function sendAgain<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  return retry({ runtime: systemRuntime, withinMs: ANSWERED_WITHIN_MS }, send)
}

/**
 * Sends a request about a lease. It has one id however often it is sent, so its effect happens once. Resolves to the answer
 * of the expected kind; a refusal is thrown.
 */
export async function send<Kind extends string, Answer extends { readonly kind: Kind }>(
  kind: Kind,
  request: (requestId: string) => Promise<Answer | Queued | Refusal>,
): Promise<Answer> {
  const requestId = systemRuntime.uuid()
  const answer = await sendAgain(() => request(requestId))
  if (answer.kind === kind) return answer as Answer
  if (answer.kind === 'queued') throw new Error('a request that may not wait was queued')
  throw refusalError(answer as Refusal)
}

/** The effect of most commands: something was done to a lease, which is shown. */
export function leaseEffect(lease: LeaseInfo, done: string, title: string): LeaseEffect {
  return {
    effect: `lease ${lease.id} of ${lease.resource} ${done}`,
    answer: lease,
    text: () => leaseCard(title, lease, Date.now()),
  }
}
