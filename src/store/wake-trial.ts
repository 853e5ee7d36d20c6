/**
 * What `tenure doctor` does to find out whether wake-ups arrive: it listens as a waiting session does, sends one as a
 * commit of another process does, and waits for it. A server may accept a subscription and deliver nothing, as PgBouncer
 * does in transaction mode, so that asking for one proves nothing.
 */
import { messageOf } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Unsubscribe } from '../store-port/store.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { ChannelEvents, ListeningConnection } from './optimistic/channel-listener.ts'

export interface WakeTrial {
  readonly runtime: Runtime
  /** Throws where nothing can be listened to. */
  readonly listen: (heard: () => void) => Promise<Unsubscribe>
  readonly send: () => Promise<unknown>
}

/** On a channel of a server, over a connection like that of its listener. */
export function listeningTo(
  channel: string,
  connectionFor: (events: ChannelEvents) => ListeningConnection,
): WakeTrial['listen'] {
  return async (heard) => {
    // Of one that is lost nothing arrives, which is what the trial tells.
    const connection = connectionFor({ message: heard, lost: () => undefined })
    const stop = (): void => void connection.close().catch(reportTo('store/wake-trial'))
    try {
      await connection.open()
      await connection.listen([channel])
    } catch (error) {
      stop()
      throw error
    }
    return stop
  }
}

const ARRIVES_WITHIN_MS = 3_000

const WITHOUT =
  'waiters notice their turn, and holders a revocation, only when they next ask: until a holder renews, only the fence protects'

/** Says that it works, or throws what is in the way and what follows from that. */
export async function tryWake({ runtime, listen, send }: WakeTrial): Promise<string> {
  let hear: () => void = () => undefined
  const heard = new Promise<void>((resolve) => (hear = resolve))
  try {
    const stop = await listen(hear)
    try {
      await send()
      if (!(await endsWithin(runtime, ARRIVES_WITHIN_MS, heard))) {
        throw new Error(`a wake-up did not arrive within ${ARRIVES_WITHIN_MS} ms`)
      }
    } finally {
      stop()
    }
  } catch (cause) {
    throw new Error(`${messageOf(cause)}; ${WITHOUT}`, { cause })
  }
  return 'a session is woken by other processes'
}
