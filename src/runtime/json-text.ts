/** JSON that comes from outside: from servers, from the clients of agents, and from files that a killed process may have left half written. */

/** Undefined for text that is no JSON; the caller says what it should have been. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // No fault: the caller refuses it, or passes over it.
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
