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
  /** How long it takes to begin to listen. */
  listenMs = 0
  readonly #listening = new Set<string>()
  readonly #runtime: FakeRuntime

  constructor(runtime: FakeRuntime) {
    this.#runtime = runtime
  }

  async open(): Promise<void> {
    await this.#pass(this.openMs)
    if (!this.isReachable) throw new Error('refused')
  }

  async listen(channels: readonly string[]): Promise<void> {
    await this.#pass(this.listenMs)
    for (const channel of channels) this.#listening.add(channel)
  }

  async unlisten(channel: string): Promise<void> {
    this.#listening.delete(channel)
  }

  async close(): Promise<void> {}

  #pass(spanMs: number): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#runtime.setTimer(spanMs, resolve, { keepAlive: false })
    })
  }

  lose(): void {
    this.#listening.clear()
    this.events?.lost(new Error('cut'))
  }

  publish(payload: string): void {
    if (this.#listening.has('work')) this.events?.message('work', payload)
  }
}

describe('a subscriber', () => {
  const runtime = new FakeRuntime()
  let channels: Channels
  let listener: ChannelListener
  let leave: () => void
  let told: (string | null)[]

  beforeEach(async () => {
    hearFaults()
    channels = new Channels(runtime)
    told = []
    listener = new ChannelListener({
      ...{ runtime, source: 'store/test/listen', callMs: 1_000 },
      connection: (events) => {
        channels.events = events
        return channels
      },
    })
    const listening = listener.listen('work', (payload) => told.push(payload))
    await runtime.advance(1)
    leave = await listening
    channels.publish('before')
    expect(told.splice(0)).toEqual(['before'])
  })

  it('whose connection was lost looks when it is heard again, because of what it may have missed until then', async () => {
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

  it('whose connection was lost looks at each try while there is none', async () => {
    channels.isReachable = false
    channels.lose()
    await runtime.advance(2_000)
    expect(told.length).toBeGreaterThan(3)
    expect(new Set(told)).toEqual(new Set([null]))
  })

  it('that comes when the last one has left is heard, whatever else is asked for meanwhile', async () => {
    channels.listenMs = 10
    const others = [listener.listen('first', () => null), listener.listen('second', () => null)]
    leave()
    const listening = listener.listen('work', (payload) => told.push(payload))
    await runtime.advance(100)
    await Promise.all([...others, listening])
    channels.publish('after')
    expect(told).toEqual(['after'])
  })
})
