/**
 * The clock of a server in tests: it stands still until somebody moves it, but for a microsecond from commit to commit,
 * as embedded stores count, and whoever decides knows exactly what it will say. So a store that decides before it asks can be
 * compared with one that does not, to the microsecond.
 *
 * Tick and wall are one clock here, as they are on a server, and there is only one domain.
 */
import type { TickSource } from '../../src/runtime/tick-source.ts'
import type { Backend, Group, GroupReply } from '../../src/store/optimistic/backend.ts'
import type { ServerTime } from '../../src/store/optimistic/server-clock.ts'
import type { TestClock } from '../../src/testing/fake-runtime.ts'

const START_US = 1_700_000_000_000_000

export class ServerTicks implements TestClock {
  #us = START_US
  #lastUs = START_US - 1

  /** The time of a call that is sent now; a backend under test uses it in place of its server's clock. */
  readonly nowUs = (): number => Math.max(this.#us, this.#lastUs + 1)

  pass(spanMs: number): void {
    this.#us += Math.round(spanMs * 1000)
  }

  stepWall(): void {
    throw new Error('a server has no wall clock apart from its tick')
  }

  enterDomain(): void {
    throw new Error('a server has one clock')
  }

  /** What an optimistic store is to believe of the time. */
  get time(): ServerTime {
    return {
      lowerUs: this.nowUs,
      toleranceUs: () => 0,
      note: () => undefined,
      reset: () => undefined,
    }
  }

  /** The same clock for an embedded store. */
  get source(): TickSource {
    return {
      host: 'server',
      domain: 'server/test/0',
      tickUs: () => this.#us,
      wallMs: () => Math.floor(this.#us / 1000),
    }
  }

  /** Lets the clock go on with every commit of a backend. */
  drive(backend: Backend): Backend {
    const attempt = async (group: Group): Promise<GroupReply> => {
      const nowUs = this.nowUs()
      const reply = await backend.attempt(group)
      const hasWritten = group.attempts.some(({ writes }, index) => {
        return writes.length > 0 && reply.replies[index]?.kind === 'committed'
      })
      if (hasWritten) this.#lastUs = Math.max(this.#lastUs, nowUs)
      return reply
    }
    return new Proxy(backend, {
      get: (target, name) => {
        if (name === 'attempt') return attempt
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
}
