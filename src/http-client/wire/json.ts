/** Reads what a server answered; null for what is no JSON, which no answer of a server of ours is. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    // No fault: this is the answer. A proxy's page of HTML is told by its status.
    return null
  }
}
