/** Requests of the page to its own server: the token in a header, a refusal as one error. */

export interface Credentials {
  /** Null: none was asked for yet. */
  readonly token: string | null
  /** Null: that of the token. */
  readonly namespace: string | null
}

/** A problem document of the server (RFC 9457), or that the server cannot be reached. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError'
  /** 0: no answer came. */
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

export interface Asked {
  readonly method?: 'GET' | 'POST'
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

const TOKEN_PATTERN = /^[\x21-\x7e]+$/

/** A path with a query; what is undefined is left out. */
export function pathWith(path: string, query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) => {
    return value === undefined ? [] : [[name, String(value)]]
  })
  const text = new URLSearchParams(given).toString()
  return text === '' ? path : `${path}?${text}`
}

export class ServerCalls {
  readonly #credentials: Credentials

  constructor(credentials: Credentials) {
    this.#credentials = credentials
  }

  /** No token goes along. */
  get isAnonymous(): boolean {
    return this.#credentials.token === null
  }

  /** The answer's JSON, which its reader has yet to read. */
  async json(path: string, asked: Asked = {}): Promise<unknown> {
    const response = await this.open(path, asked)
    return await whole(response.json(), asked.signal)
  }

  async text(path: string): Promise<string> {
    const response = await this.open(path, {})
    return await whole(response.text())
  }

  /** An answer that is no problem; throws `ProblemError`. */
  async open(path: string, asked: Asked): Promise<Response> {
    const { token, namespace } = this.#credentials
    const { method = 'GET', body, headers, signal } = asked
    // No header can hold it, so no server is asked: by the error of the browser it would seem to be away.
    if (token !== null && !TOKEN_PATTERN.test(token)) {
      throw new ProblemError(401, 'UNAUTHORIZED', 'the token must be a valid one')
    }
    const request: RequestInit = {
      method,
      headers: {
        ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
        ...(namespace === null ? {} : { 'Tenure-Namespace': namespace }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
      cache: 'no-store',
      credentials: 'omit',
    }
    const response = await fetch(`.${path}`, request).catch((cause: unknown) => {
      if (signal?.aborted === true) throw cause
      throw new ProblemError(0, 'unreachable', 'the server cannot be reached')
    })
    if (response.ok) return response
    throw await problemOf(response)
  }
}

/** A body whose connection broke, or that is none of this server, is no answer. */
async function whole<Body>(body: Promise<Body>, signal?: AbortSignal): Promise<Body> {
  return body.catch((cause: unknown) => {
    if (signal?.aborted === true) throw cause
    throw new ProblemError(0, 'unreachable', "the server's answer was cut off")
  })
}

async function problemOf(response: Response): Promise<ProblemError> {
  const { status } = response
  const isProblem = response.headers.get('content-type')?.includes('problem+json') === true
  if (!isProblem) return new ProblemError(status, 'unexpected', `the server answered ${status}`)
  const problem = (await whole(response.json())) as {
    readonly code?: unknown
    readonly detail?: unknown
  }
  return new ProblemError(status, String(problem.code), String(problem.detail))
}
