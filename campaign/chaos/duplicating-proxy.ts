/** An HTTP proxy that sends requests twice while it is told to, as a network or an impatient client may: one answer is passed on. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'

export class DuplicatingProxy {
  readonly #target: URL
  readonly #server: http.Server
  readonly #agent = new http.Agent({ keepAlive: true })
  isDuplicating = false

  private constructor(target: string) {
    this.#target = new URL(target)
    this.#server = http.createServer((request, answer) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => this.#pass(request, Buffer.concat(chunks), answer))
    })
  }

  static async start(target: string): Promise<DuplicatingProxy> {
    const proxy = new DuplicatingProxy(target)
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    this.#agent.destroy()
    await closed
  }

  #pass(request: http.IncomingMessage, body: Buffer, answer: http.ServerResponse): void {
    if (this.isDuplicating && request.method !== 'GET') {
      const twin = this.#send(request, body, (response) => void response.resume())
      twin.on('error', () => undefined)
    }
    const call = this.#send(request, body, (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers)
      response.pipe(answer)
      response.on('error', () => answer.destroy())
    })
    call.on('error', () => answer.destroy())
    // A client that hangs up here hangs up there: the server must not wait on its behalf.
    answer.on('close', () => answer.writableFinished || call.destroy())
  }

  #send(
    { method, url, headers }: http.IncomingMessage,
    body: Buffer,
    onAnswer: (response: http.IncomingMessage) => void,
  ): http.ClientRequest {
    const { hostname, port, host } = this.#target
    const options = { hostname, port, path: url, method, agent: this.#agent }
    const call = http.request({ ...options, headers: { ...headers, host } }, onAnswer)
    call.end(body)
    return call
  }
}
