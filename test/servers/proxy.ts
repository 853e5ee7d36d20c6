/**
 * A TCP proxy between a client and a server, for the faults that a network has: connections cut, also in the middle of a
 * reply, packets that go nowhere, slow ones, replies that are lost after the server has done what it was asked, and calls
 * that reach the server late, after their client has sent them again. It also counts round trips: how often a client that
 * had asked something began to be answered.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import net, { type AddressInfo } from 'node:net'

/** What becomes of the bytes from now on, on connections old and new. */
type Weather =
  | { readonly kind: 'clear' }
  | { readonly kind: 'refusing' }
  /** Nothing passes, and nobody is told: not even that a connection ended. */
  | { readonly kind: 'black_hole' }
  | { readonly kind: 'slow'; readonly delayMs: number }
  | { readonly kind: 'losing'; readonly loss: ReplyLoss }
  /** The next reply ends in its middle, and so does its connection. */
  | { readonly kind: 'halving'; readonly onHalved: () => void }
  | { readonly kind: 'holding'; readonly hold: CallHold }

interface CallHold {
  readonly isMeant: (request: Buffer) => boolean
  readonly onHeld: (deliver: DeliverCall) => void
}

/** Lets the server hear a call that was held; settles when it has answered, or can be heard of no more. */
export type DeliverCall = () => Promise<void>

interface ReplyLoss {
  readonly isMeant: (request: Buffer) => boolean
  readonly isDone: () => Promise<boolean>
  readonly then: 'cut' | 'silence'
  readonly onLost: () => void
}

export interface ReplyLossOptions {
  /** Which request is to lose its reply; the next one of all unless given. */
  readonly request?: (request: Buffer) => boolean
  /**
   * Asked while the reply is held back: whether the server has done what is meant. If not, the reply passes, and the
   * next request that is meant is judged in the same way. Always done unless given.
   */
  readonly isDone?: () => Promise<boolean>
  /** After the loss: `cut` resets the connection; `silence` lets nothing more through it. */
  readonly then?: 'cut' | 'silence'
}

type Side = 'client' | 'server'

export class Proxy {
  readonly #target: { readonly host: string; readonly port: number }
  readonly #listener: net.Server
  readonly #links = new Set<Link>()
  #weather: Weather = { kind: 'clear' }
  #roundTrips = 0
  #connections = 0

  private constructor(target: { readonly host: string; readonly port: number }) {
    this.#target = target
    this.#listener = net.createServer({ allowHalfOpen: true }, (client) => this.#connect(client))
  }

  /** A proxy to the server that a store's URL names. */
  static async start(url: string): Promise<Proxy> {
    const { hostname, port } = new URL(url)
    const proxy = new Proxy({ host: hostname, port: Number(port) })
    await new Promise<void>((resolve) => proxy.#listener.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port
  }

  /** Round trips on all connections since the start, or since `resetCounts`. */
  get roundTrips(): number {
    return this.#roundTrips
  }

  /** Connections accepted since the start, or since `resetCounts`. */
  get connections(): number {
    return this.#connections
  }

  resetCounts(): void {
    this.#roundTrips = 0
    this.#connections = 0
  }

  /** The same URL through this proxy. */
  through(url: string): string {
    const own = new URL(url)
    own.hostname = '127.0.0.1'
    own.port = String(this.port)
    return own.href
  }

  /** Everything passes again. Connections that went silent stay so; a client has to give them up itself. */
  clear(): void {
    this.#weather = { kind: 'clear' }
  }

  /** Resets every connection there is. New ones are accepted. */
  cut(): void {
    for (const link of this.#links) link.reset()
  }

  /** Resets every connection, and new ones at once, until `clear`. */
  refuse(): void {
    this.#weather = { kind: 'refusing' }
    this.cut()
  }

  /** From now on nothing passes, and new connections are accepted and never answered, until `clear`. */
  blackHole(): void {
    this.#weather = { kind: 'black_hole' }
  }

  /** Everything arrives this much later, each way, until `clear`. */
  delay(delayMs: number): void {
    this.#weather = { kind: 'slow', delayMs }
  }

  /**
   * Lets the next request that is meant through, waits for the server's reply and drops it. The promise is
   * fulfilled when that has happened; from then on everything else passes.
   */
  loseReply(options: ReplyLossOptions = {}): Promise<void> {
    const { request: isMeant = () => true, isDone = async () => true, then = 'cut' } = options
    return new Promise((resolve) => {
      const onLost = () => {
        this.clear()
        resolve()
      }
      this.#weather = { kind: 'losing', loss: { isMeant, isDone, then, onLost } }
    })
  }

  /** Lets half of the next reply through and resets its connection. The promise is fulfilled when that has happened. */
  halveReply(): Promise<void> {
    return new Promise((resolve) => {
      const onHalved = () => {
        this.clear()
        resolve()
      }
      this.#weather = { kind: 'halving', onHalved }
    })
  }

  /**
   * Keeps the next call that is meant from the server and resets its connection, so that its client may send it again. The
   * server hears the first one when the answer is called: late, and on a connection that to it is still there.
   */
  holdCall(isMeant: (request: Buffer) => boolean = () => true): Promise<DeliverCall> {
    return new Promise((resolve) => {
      const onHeld = (deliver: DeliverCall) => {
        this.clear()
        resolve(deliver)
      }
      this.#weather = { kind: 'holding', hold: { isMeant, onHeld } }
    })
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve))
    this.cut()
    await closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #connect(client: net.Socket): void {
    this.#connections++
    if (this.#weather.kind === 'refusing') return void client.resetAndDestroy()
    const server = net.connect({ ...this.#target, allowHalfOpen: true })
    const link = new Link({ client, server }, () => this.#weather)
    link.onRoundTrip = () => this.#roundTrips++
    link.onEnd = () => this.#links.delete(link)
    this.#links.add(link)
  }
}

/** One connection of a client, with the connection to the server that it is carried on over. */
class Link {
  onRoundTrip = (): void => {}
  onEnd = (): void => {}
  readonly #ends: Readonly<Record<Side, net.Socket>>
  readonly #weather: () => Weather
  /** What is on its way to each side. Chained, so that bytes keep their order whatever the delays. */
  readonly #underway: Record<Side, Promise<void>> = {
    client: Promise.resolve(),
    server: Promise.resolve(),
  }
  #lastSpeaker: Side = 'server'
  #losing: ReplyLoss | null = null
  #isSilent = false
  /** The client is gone; the server is not told, because a call of the client is still under way to it. */
  #isHeld = false

  constructor(ends: Readonly<Record<Side, net.Socket>>, weather: () => Weather) {
    this.#ends = ends
    this.#weather = weather
    for (const side of ['client', 'server'] as const) {
      ends[side].setNoDelay(true)
      ends[side].on('data', (bytes) => this.#hear(side, bytes))
      ends[side].on('end', () => this.#pass(side, null))
      ends[side].on('error', () => this.#passEnd(side))
      ends[side].on('close', () => this.#passEnd(side))
    }
  }

  reset(): void {
    this.#ends.client.resetAndDestroy()
    this.#ends.server.destroy()
    this.onEnd()
  }

  #hear(speaker: Side, bytes: Buffer): void {
    if (this.#isHeld) return
    const weather = this.#weather()
    if (speaker === 'client' && weather.kind === 'holding' && weather.hold.isMeant(bytes)) {
      return this.#hold(weather.hold, bytes)
    }
    if (speaker === 'server' && weather.kind === 'halving') {
      return this.#halve(weather.onHalved, bytes)
    }
    if (speaker === 'client' && weather.kind === 'losing' && weather.loss.isMeant(bytes)) {
      this.#losing = weather.loss
    }
    if (speaker === 'server' && this.#losing !== null) return this.#judge(this.#losing, bytes)
    if (speaker === 'server' && this.#lastSpeaker === 'client') this.onRoundTrip()
    this.#lastSpeaker = speaker
    this.#pass(speaker, bytes)
  }

  /** Whatever the server says meanwhile queues up behind. */
  #judge(loss: ReplyLoss, reply: Buffer): void {
    this.#losing = null
    this.#lastSpeaker = 'server'
    this.#underway.client = this.#underway.client.then(async () => {
      if (await loss.isDone()) this.#lose(loss)
      else this.#ends.client.write(reply)
    })
  }

  #lose(loss: ReplyLoss): void {
    loss.onLost()
    if (loss.then === 'cut') this.reset()
    else this.#isSilent = true
  }

  #halve(onHalved: () => void, reply: Buffer): void {
    onHalved()
    this.#isSilent = true
    this.#underway.client = this.#underway.client.then(() => {
      const half = reply.subarray(0, Math.floor(reply.length / 2))
      this.#ends.client.write(half, () => this.reset())
    })
  }

  #hold({ onHeld }: CallHold, call: Buffer): void {
    this.#isHeld = true
    const { client, server } = this.#ends
    client.resetAndDestroy()
    onHeld(async () => {
      await this.#underway.server
      const heard = new Promise<void>((resolve) => {
        server.once('data', () => resolve()).once('close', () => resolve())
        if (server.destroyed) resolve()
      })
      server.write(call)
      await heard
      this.reset()
    })
  }

  /** Sends bytes (null: the end) on to the other side. */
  #pass(speaker: Side, bytes: Buffer | null): void {
    if (this.#isHeld) return
    const weather = this.#weather()
    if (weather.kind === 'black_hole') this.#isSilent = true
    if (this.#isSilent) return
    const listener = speaker === 'client' ? 'server' : 'client'
    const delayMs = weather.kind === 'slow' ? weather.delayMs : 0
    const due = performance.now() + delayMs
    this.#underway[listener] = this.#underway[listener].then(async () => {
      // A timer may be a moment early.
      while (performance.now() < due) await sleep(due - performance.now())
      if (bytes === null) this.#ends[listener].end()
      else this.#ends[listener].write(bytes)
    })
  }

  /** A connection that broke on one side breaks on the other, unless nobody is to be told. */
  #passEnd(speaker: Side): void {
    if (this.#isHeld) return
    if (speaker === 'server' && (this.#isSilent || this.#weather().kind === 'black_hole')) return
    const listener = speaker === 'client' ? 'server' : 'client'
    void this.#underway[listener].then(() => {
      this.#ends[listener].destroy()
      this.onEnd()
    })
  }
}
