/** Messages of a channel are not kept for a subscriber whose connection is lost: it is told to look for itself. */
import { beforeEach, describe, expect, it } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  ChannelListener,
  type ChannelEvents,
  type ListeningConnection,
} from '../../src/store/optimistic/channel-listener.ts'
import { hearFaults } from '../runtime/hear-faults.ts'

/** A server whose messages reach those that listen at that moment. */
class Channels implements ListeningConnection {
  events: ChannelEvents | null = null
  isReachable = true
  /** How long the server takes to let a connection in. */
  openMs = 0
  #isListening = false
  readonly #runtime: FakeRuntime

  constructor(runtime: FakeRuntime) {
    this.#runtime = runtime
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#runtime.setTimer(this.openMs, resolve, { keepAlive: false })
    })
    if (!this.isReachable) throw new Error('refused')
  }

  async listen(): Promise<void> {
    this.#isListening = true
  }

  async unlisten(): Promise<void> {}

  async close(): Promise<void> {}

  lose(): void {
    this.#isListening = false
    this.events?.lost(new Error('cut'))
  }

  publish(payload: string): void {
    if (this.#isListening) this.events?.message('work', payload)
  }
}

describe('a subscriber whose connection was lost', () => {
  const runtime = new FakeRuntime()
  let channels: Channels
  let told: (string | null)[]

  beforeEach(async () => {
    hearFaults()
    channels = new Channels(runtime)
    told = []
    const listener = new ChannelListener({
      ...{ runtime, source: 'store/test/listen', callMs: 1_000 },
      connection: (events) => {
        channels.events = events
        return channels
      },
    })
    const listening = listener.listen('work', (payload) => told.push(payload))
    await runtime.advance(1)
    await listening
    channels.publish('before')
    expect(told.splice(0)).toEqual(['before'])
  })

  it('looks when it is heard again, because of what it may have missed until then', async () => {
    channels.openMs = 400
    channels.lose()
    await runtime.advance(100)
    expect(told.splice(0)).toEqual([null])
    channels.publish('while it was away')
    await runtime.advance(400)
    expect(told.splice(0)).toEqual([null])
    channels.publish('after')
    expect(told).toEqual(['after'])
  })

  it('looks at each try while there is no connection', async () => {
    channels.isReachable = false
    channels.lose()
    await runtime.advance(2_000)
    expect(told.length).toBeGreaterThan(3)
    expect(new Set(told)).toEqual(new Set([null]))
  })
})
