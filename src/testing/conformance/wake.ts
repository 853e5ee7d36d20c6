/** Waking: the waiter whose turn it is is notified, and no other. */
import assert from 'node:assert/strict'
import type { Store, Unsubscribe, WakeSignal } from '../../store-port/store.ts'
import type { Behaviour } from './harness.ts'

const BOB = 'session-of-bob'

export const wakeBehaviours: readonly Behaviour[] = [
  {
    name: 'the session whose turn it is is woken by the release',
    async run(stage) {
      const lease = await stage.grant()
      const { leaseId } = await stage.queue({ holder: 'bob' })
      const subscriber = await WakeSubscriber.at(stage.store, BOB)
      await stage.release(lease)
      await subscriber.heard
      assert(subscriber.isNotified(leaseId))
      subscriber.close()
    },
  },
  {
    name: 'a session that waits further back is not told of an offer to another',
    async run(stage) {
      const lease = await stage.grant()
      const { leaseId } = await stage.queue({ holder: 'bob' })
      await stage.queue({ holder: 'cyd' })
      const bob = await WakeSubscriber.at(stage.store, BOB)
      const cyd = await WakeSubscriber.at(stage.store, 'session-of-cyd')
      await stage.release(lease)
      await bob.heard
      assert(!cyd.isNamed(leaseId))
      bob.close()
      cyd.close()
    },
  },
  {
    name: 'a revoked holder is woken',
    async run(stage) {
      const lease = await stage.grant({ holder: 'bob' })
      const subscriber = await WakeSubscriber.at(stage.store, BOB)
      await stage.revoke(lease)
      await subscriber.heard
      assert(subscriber.isNotified(lease.id))
      subscriber.close()
    },
  },
  {
    name: 'every listener of a session is woken, and one that was taken off is not',
    async run(stage) {
      const lease = await stage.grant({ holder: 'bob' })
      const [one, two, gone] = await Promise.all([
        WakeSubscriber.at(stage.store, BOB),
        WakeSubscriber.at(stage.store, BOB),
        WakeSubscriber.at(stage.store, BOB),
      ])
      gone.close()
      await stage.revoke(lease)
      await Promise.all([one.heard, two.heard])
      assert.equal(gone.signals.length, 0)
      one.close()
      two.close()
    },
  },
  {
    name: 'a listener may be taken off twice',
    async run(stage) {
      const subscriber = await WakeSubscriber.at(stage.store, BOB)
      subscriber.close()
      subscriber.close()
      await stage.revoke(await stage.grant({ holder: 'bob' }))
      assert.equal(subscriber.signals.length, 0)
    },
  },
  {
    name: 'a waiter is woken by a release in another process',
    needs: ['openAnother'],
    async run(stage) {
      const another = await stage.another()
      const lease = await stage.grant()
      const command = stage.acquire({ holder: 'bob', wait: { kind: 'up_to', waitMs: 60_000 } })
      assert.equal((await stage.run(command, another)).kind, 'queued')
      const subscriber = await WakeSubscriber.at(another, BOB)
      await stage.release(lease)
      await subscriber.heard
      subscriber.close()
    },
  },
  {
    name: 'a follower of the ledger is notified soon when it grows',
    async run(stage) {
      const heard = withResolvers()
      const unfollow = stage.store.follow(() => heard.resolve())
      await stage.grant()
      await heard.promise
      unfollow()
      unfollow()
    },
  },
  {
    name: 'a follower of the ledger is notified of commits of another process',
    needs: ['openAnother'],
    async run(stage) {
      const another = await stage.another()
      const heard = withResolvers()
      const unfollow = another.follow(() => heard.resolve())
      await stage.grant()
      await heard.promise
      unfollow()
    },
  },
]

class WakeSubscriber {
  readonly signals: WakeSignal[] = []
  readonly heard: Promise<void>
  #unsubscribe: Unsubscribe = () => undefined

  static async at(store: Store, session: string): Promise<WakeSubscriber> {
    const first = withResolvers()
    const subscriber = new WakeSubscriber(first.promise)
    subscriber.#unsubscribe = await store.subscribe(session, (signal) => {
      subscriber.signals.push(signal)
      first.resolve()
    })
    return subscriber
  }

  private constructor(heard: Promise<void>) {
    this.heard = heard
  }

  /** A signal without ids tells to look for oneself, which is enough. */
  isNotified(leaseId: string): boolean {
    return this.signals.some((signal) => signal.leaseIds?.includes(leaseId) ?? true)
  }

  isNamed(leaseId: string): boolean {
    return this.signals.some((signal) => signal.leaseIds?.includes(leaseId) ?? false)
  }

  close(): void {
    this.#unsubscribe()
  }
}

/** A wake-up that never comes is a test that never ends: the runner's own time limit says so. */
function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
