/** An address that stays while what is behind it changes, as a virtual address of a database is: clients that are connected are cut off. */
import net, { type AddressInfo } from 'node:net'

export class Forwarder {
  readonly #server: net.Server
  readonly #sockets = new Set<net.Socket>()
  #port: number

  private constructor(port: number) {
    this.#port = port
    this.#server = net.createServer((client) => {
      const server = net.connect(this.#port, '127.0.0.1')
      for (const [one, other] of [
        [client, server],
        [server, client],
      ] as const) {
        this.#sockets.add(one)
        one.on('error', () => other.destroy())
        one.on('close', () => {
          this.#sockets.delete(one)
          other.destroy()
        })
        one.pipe(other)
      }
    })
  }

  static async start(port: number): Promise<Forwarder> {
    const forwarder = new Forwarder(port)
    await new Promise<void>((resolve) => forwarder.#server.listen(0, '127.0.0.1', resolve))
    return forwarder
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  leadTo(port: number): void {
    this.#port = port
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }
}
