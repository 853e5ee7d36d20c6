/** Server-sent events out of a response that was fetched: `EventSource` cannot send a token. */

export interface StreamMessage {
  /** The last id that was sent, with this message or before it. */
  readonly id: string | null
  /** Empty for a message that says only up to where everything was seen. */
  readonly data: string
}

/** Yields each message as it comes; ends with the response. */
export async function* readMessages(response: Response): AsyncGenerator<StreamMessage> {
  if (response.body === null) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let id: string | null = null
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const blocks = `${rest}${value}`.split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const data: string[] = []
      for (const line of block.split('\n')) {
        if (line.startsWith('id: ')) id = line.slice('id: '.length)
        else if (line.startsWith('data: ')) data.push(line.slice('data: '.length))
      }
      yield { id, data: data.join('\n') }
    }
  }
}
